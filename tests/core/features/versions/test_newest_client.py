"""The newest client over servers of every revision: what it asks is converted, and so is what its handlers answer."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, server_of, since
from support.project import ROOT

from mcp_generated import v2026_07_28
from mcp_products.host.sync import BaseSyncClient
from mcp_runtime.errors import JSONRPCError, LocalError, ProtocolViolationError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

t = v2026_07_28.types
ECHO = ROOT / "examples" / "echo" / "server.py"


class Newest(v2026_07_28.Client):
    """With all that a server may ask of it."""

    received: list[Any]

    async def on_list_roots(self, ctx: Any, params: Any) -> t.ListRootsResult:
        assert ctx.state is self
        return t.ListRootsResult(roots=[t.Root(uri="file:///here")])

    async def on_create_message(self, ctx: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        assert isinstance(params, t.CreateMessageRequestParams)
        return t.CreateMessageResult(role="assistant", model="m", content=[t.TextContent(text="one")])

    async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
        assert isinstance(params, t.ElicitRequestFormParams)
        return t.ElicitResult(action="accept", content={"name": "Ann"})

    async def on_logging_message(self, ctx: Any, params: t.LoggingMessageNotificationParams) -> None:
        assert isinstance(params, t.LoggingMessageNotificationParams)
        self.received.append(params.data)


@among(ALL_REVISIONS)
async def test_it_calls_a_tool_with_progress_and_log(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        assert isinstance(params, rev.t.CallToolRequestParams)
        await ctx.progress(0.5)
        await ctx.log("info", "working")
        return rev.text(params.name)

    meta = {"io.modelcontextprotocol/logLevel": "debug"}
    server = server_of(rev, {"logging": {}}, instructions="Ask.", call_tool=call_tool)
    async with connect(server, client=Newest) as client:
        client.received = []
        assert isinstance(client.server, t.DiscoverResult) and client.server.instructions == "Ask."
        assert client.server.supported_versions == [rev.id] and client.server.capabilities.tools is not None
        options = RequestOptions(on_progress=lambda progress: client.received.append(progress.progress), meta=meta)
        result = await client.call_tool(name="hello", options=options)
        assert isinstance(result, t.CallToolResult) and result.content == [t.TextContent(text="hello")]
        assert client.received == [0.5, "working"]
        with pytest.raises(ProtocolViolationError, match="server.prompts"):
            await client.list_prompts()


@among(HANDSHAKE)
async def test_its_handlers_answer_servers_of_older_revisions(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        roots = await ctx.list_roots()
        message = rev.t.SamplingMessage(role="user", content=rev.t.TextContent(text="?"))
        sampled = await ctx.create_message(messages=[message], max_tokens=5)
        assert isinstance(sampled, rev.t.CreateMessageResult)
        return rev.text(
            f"{roots.roots[0].uri} {sampled.content if isinstance(sampled.content, list) else sampled.content.text}"
        )

    async with connect(server_of(rev, call_tool=call_tool), client=Newest) as client:
        (block,) = (await client.call_tool(name="x")).content
        assert isinstance(block, t.TextContent) and block.text.startswith("file:///here ")
        assert "one" in block.text


@among(since("2025-06-18", HANDSHAKE))
async def test_it_is_asked_for_a_form_by_servers_of_older_revisions(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        schema = rev.t.RequestedSchema(properties={"name": rev.t.StringSchema()})
        form = getattr(rev.t, "ElicitRequestFormParams", None)
        form_params = {"message": "Who?", "requested_schema": schema}
        answer = await (ctx.elicit(form(**form_params)) if form is not None else ctx.elicit(**form_params))
        return rev.text(answer.content["name"])

    async with connect(server_of(rev, call_tool=call_tool), client=Newest) as client:
        (block,) = (await client.call_tool(name="x")).content
        assert isinstance(block, t.TextContent) and block.text == "Ann"


async def test_an_old_client_speaks_to_newer_servers() -> None:
    old = ALL_REVISIONS[0]

    async def call_tool(ctx: Any, params: Any) -> Any:
        return t.CallToolResult(content=[t.ResourceLink(name="n", uri="u:x")])

    for server in (server_of(ALL_REVISIONS[-1], call_tool=call_tool), server_of(ALL_REVISIONS[2], call_tool=_linked)):
        async with connect(server, client=old.package.Client) as client:
            (block,) = (await client.call_tool(name="x")).content
            assert isinstance(block, old.t.TextContent) and block.text == "n: u:x"


async def _linked(ctx: Any, params: Any) -> Any:
    ours = ALL_REVISIONS[2].t
    return ours.CallToolResult(content=[ours.ResourceLink(name="n", uri="u:x")])


async def test_it_is_connected_to_a_command() -> None:
    async with connect([sys.executable, str(ECHO)], revisions=["2024-11-05", "2026-07-28"]) as client:
        assert type(client) is v2026_07_28.Client
        assert (await client.list_tools()).tools


async def test_a_text_that_is_no_url_is_no_target() -> None:
    with pytest.raises(LocalError, match="'python server.py' is not a URL; pass a command as a list of its words"):
        connect("python server.py")


def test_the_synchronous_client_does_the_same() -> None:
    rev = ALL_REVISIONS[1]

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text("hi")

    sync: type[BaseSyncClient[Any]] = v2026_07_28.SyncClient
    with sync.memory(server_of(rev, call_tool=call_tool), revisions="all") as client:
        assert client.call_tool(name="x").content[0].text == "hi"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("code", "expected"), [(-32002, -32602), (-32000, -32000), (7, 7)])
@among(HANDSHAKE)
async def test_the_code_of_a_missing_resource_is_that_of_the_client(rev: Rev, code: int, expected: int) -> None:
    """Only of a resource: what else has this code keeps it."""

    def refuse(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(code, "why", {"uri": "test://x"})

    async with connect(server_of(rev, read_resource=refuse, call_tool=refuse)) as client:
        with pytest.raises(RemoteJSONRPCError) as missing:
            await client.read_resource(uri="test://x")
        with pytest.raises(RemoteJSONRPCError) as other:
            await client.call_tool(name="x")
    assert (missing.value.code, missing.value.data) == (expected, {"uri": "test://x"})
    assert other.value.code == code
