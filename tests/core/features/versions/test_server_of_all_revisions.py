"""One handler object serves clients of every revision: over memory and stdio, with what it asks and tells them."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, client_of, server_of

from mcp_generated import v2025_11_25, v2026_07_28
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import ConversionError, RemoteJSONRPCError
from mcp_runtime.server.service import service_candidates
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports import memory

t = v2026_07_28.types
NEWEST, TASKS = Rev("2026-07-28"), Rev("2025-11-25")


def newest(**handlers: Any) -> Any:
    return server_of(NEWEST, {"logging": {}}, **handlers)


def to(server: Any) -> Any:
    """What connects a client to a server object that serves all revisions."""
    return memory.connect_in_memory(service_candidates(server_candidates(server)))


@among(ALL_REVISIONS)
async def test_a_tool_of_the_newest_revision_is_called_by_all(rev: Rev) -> None:
    async def list_tools(ctx: Any, params: Any) -> Any:
        tool = t.Tool(name="say", title="Say it", input_schema=t.ToolInputSchema())
        return t.ListToolsResult(tools=[tool], ttl_ms=1000)

    async def call_tool(ctx: Any, params: t.CallToolRequestParams) -> Any:
        assert isinstance(params, t.CallToolRequestParams) and ctx.client_info["name"] == "mcp-generated"
        return t.CallToolResult(
            content=[t.TextContent(text=str(params.arguments))], structured_content=params.arguments
        )

    async with client_of(rev, to(newest(list_tools=list_tools, call_tool=call_tool))) as client:
        assert client.revision.id == rev.id
        (tool,) = (await client.list_tools()).tools
        assert tool.name == "say" and "title" not in (tool.model_extra or {})
        assert getattr(tool, "title", None) == ("Say it" if rev.id >= "2025-06-18" else None)
        result = await client.call_tool(name="say", arguments={"x": 1})
        assert isinstance(result, rev.t.CallToolResult) and result.content[0].text == "{'x': 1}"
        assert getattr(result, "structured_content", None) == ({"x": 1} if rev.id >= "2025-06-18" else None)


@among(ALL_REVISIONS)
async def test_a_result_of_another_type_is_an_internal_error_for_all(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[Any] = [t.ListPromptsResult(prompts=[]), {"tools": []}, None, "tools"]

    async def list_tools(ctx: Any, params: Any) -> Any:
        return results[0]

    async with client_of(rev, to(newest(list_tools=list_tools))) as client:
        while results:
            with pytest.raises(RemoteJSONRPCError) as refused:
                await client.list_tools()
            assert refused.value.code == -32603
            assert type(results.pop(0)).__name__ in caplog.text
            caplog.clear()


@among(ALL_REVISIONS)
async def test_progress_and_log_reach_every_client(rev: Rev) -> None:
    received: list[Any] = []

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1, total=2, message="half")
        await ctx.log("info", "working")
        return t.CallToolResult(content=[])

    async def on_logging_message(ctx: Any, params: Any) -> None:
        received.append(params.data)

    meta = {} if not rev.stateless else {"io.modelcontextprotocol/logLevel": "debug"}
    server = newest(call_tool=call_tool)
    async with client_of(rev, to(server), on_logging_message=on_logging_message) as client:
        await client.call_tool(
            name="x", options=RequestOptions(on_progress=lambda p: received.append(p.message), meta=meta)
        )
    assert received == ["half" if rev.id > "2024-11-05" else None, "working"]


@among(HANDSHAKE)
async def test_what_a_result_asks_becomes_requests_and_the_handler_runs_again(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: t.CallToolRequestParams) -> Any:
        if params.input_responses is None:
            return t.InputRequiredResult(input_requests={"where": t.ListRootsRequest()}, request_state="kept")
        assert params.request_state == "kept"
        answer = params.input_responses["where"]
        assert isinstance(answer, t.ListRootsResult)
        return t.CallToolResult(content=[t.TextContent(text=answer.roots[0].uri)])

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult(roots=[rev.t.Root(uri="file:///here")])

    async with client_of(rev, to(newest(call_tool=call_tool)), on_list_roots=on_list_roots) as client:
        assert (await client.call_tool(name="x")).content[0].text == "file:///here"


@among(HANDSHAKE)
async def test_a_handler_asks_a_client_of_another_revision_for_a_message(rev: Rev) -> None:
    ours = TASKS.t

    async def call_tool(ctx: Any, params: Any) -> Any:
        blocks = [ours.TextContent(text="one"), ours.TextContent(text="two")]
        messages = [ours.SamplingMessage(role="user", content=blocks)]
        answer = await ctx.create_message(messages=messages, max_tokens=9)
        assert isinstance(answer, ours.CreateMessageResult)
        return ours.CallToolResult(content=[answer.content])

    async def on_create_message(ctx: Any, params: Any) -> Any:
        assert isinstance(params, rev.t.CreateMessageRequestParams)
        contents = [message.content for message in params.messages]
        texts = [block.text for block in (contents[0] if isinstance(contents[0], list) else contents)]
        return rev.t.CreateMessageResult(role="assistant", model="m", content=rev.t.TextContent(text="+".join(texts)))

    server = server_of(TASKS, call_tool=call_tool)
    async with client_of(rev, to(server), on_create_message=on_create_message) as client:
        assert (await client.call_tool(name="x")).content[0].text == "one+two"


async def test_what_cannot_be_said_in_the_other_revision_is_refused_with_its_rule() -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        ours = TASKS.t
        tool = ours.Tool(name="t", input_schema=ours.ToolInputSchema())
        text = ours.SamplingMessage(role="user", content=ours.TextContent(text="x"))
        with pytest.raises(ConversionError, match="CreateMessageRequestParams.tools: A model that cannot call"):
            await ctx.create_message(messages=[text], max_tokens=1, tools=[tool])
        return ours.CallToolResult(content=[])

    async def on_create_message(ctx: Any, params: Any) -> Any:
        raise AssertionError("it was asked without the tools")

    old = Rev("2025-06-18")
    async with client_of(old, to(server_of(TASKS, call_tool=call_tool)), on_create_message=on_create_message) as client:
        await client.call_tool(name="x")


@among(ALL_REVISIONS)
async def test_an_old_handler_serves_newer_clients(rev: Rev) -> None:
    ours = ALL_REVISIONS[0].t

    async def call_tool(ctx: Any, params: Any) -> Any:
        assert isinstance(params, ours.CallToolRequestParams)
        return ours.CallToolResult(content=[ours.TextContent(text=params.name)])

    async def complete(ctx: Any, params: Any) -> Any:
        return ours.CompleteResult(completion=ours.Completion(values=[str(n) for n in range(150)]))

    async with client_of(rev, to(server_of(ALL_REVISIONS[0], call_tool=call_tool, complete=complete))) as client:
        assert (await client.call_tool(name="x")).content[0].text == "x"
        ref = rev.t.PromptReference(name="p")
        values = (
            await client.complete(ref=ref, argument=rev.t.CompletionArgument(name="a", value=""))
        ).completion.values
        assert len(values) == (100 if rev.stateless else 150)


@among(HANDSHAKE)
async def test_who_watches_a_resource_is_told_what_the_handlers_announce(rev: Rev) -> None:
    uris: asyncio.Queue[str] = asyncio.Queue()

    async def read_resource(ctx: Any, params: Any) -> Any:
        raise AssertionError

    async def on_resource_updated(ctx: Any, params: Any) -> None:
        assert isinstance(params, rev.t.ResourceUpdatedNotificationParams)
        uris.put_nowait(params.uri)

    server = server_of(NEWEST, {"resources": {"subscribe": True}}, read_resource=read_resource)
    async with client_of(rev, to(server), on_resource_updated=on_resource_updated) as client:
        await client.subscribe(uri="note://one")
        await server.notify_resource_updated(uri="note://other")
        await server.notify_resource_updated(uri="note://one")
        assert await uris.get() == "note://one"


async def test_what_only_its_own_revision_has_is_not_declared_to_others() -> None:
    async def get_task(ctx: Any, params: Any) -> Any:
        raise AssertionError

    async def subscribe(ctx: Any, params: Any) -> Any:
        raise AssertionError

    server = server_of(TASKS, {"resources": {"listChanged": True}}, get_task=get_task, subscribe=subscribe)
    async with client_of(Rev("2025-06-18"), to(server)) as client:
        declared = client.server.capabilities.model_dump()
        assert declared == {"resources": {"listChanged": True, "subscribe": True}}


@among(ALL_REVISIONS)
async def test_a_chosen_list_of_revisions_is_served_over_stdio(rev: Rev, tmp_path: Any) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "from mcp_generated.v2026_07_28 import Server, types as t\n"
        "class Echo(Server):\n"
        "    async def call_tool(self, ctx, params):\n"
        "        return t.CallToolResult(content=[t.TextContent(text=params.name)])\n"
        "Echo(name='echo', version='1').run()\n"
    )
    async with rev.package.Client.stdio(sys.executable, str(script)) as client:
        assert (await client.call_tool(name="hello")).content[0].text == "hello"


def test_a_revision_that_is_not_there_cannot_be_served() -> None:
    server = v2025_11_25.Server(name="x", version="1")
    with pytest.raises(Exception, match="there is no protocol version '1999' besides 2025-11-25"):
        server_candidates(server, ["1999"])


@pytest.mark.parametrize("own", ALL_REVISIONS, ids=str)
@among(ALL_REVISIONS)
async def test_the_list_of_a_class_of_any_revision_reaches_clients_of_any_other(own: Rev, rev: Rev) -> None:
    async def list_prompts(ctx: Any, params: Any) -> Any:
        return own.t.ListPromptsResult(prompts=[own.t.Prompt(name="greet")])

    async with client_of(rev, to(server_of(own, list_prompts=list_prompts))) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
