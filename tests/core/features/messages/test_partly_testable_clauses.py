"""Clauses that a library can only help with: what it gives for them works the same with a handshake and without one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among, both, clause, client_of, server_of, since, text_of

from mcp_products.host.roots import is_within, readable_roots
from mcp_products.host.tools import ApprovedTools
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.aio.rates import RateLimit, TokenBucket
from mcp_runtime.errors import JSONRPCError, MCPError, ProtocolViolationError
from mcp_runtime.protocol.models import validator

FORM = {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
SECRET = "the launch code is 4711"


def of_draft(page: str, *numbers: int) -> pytest.MarkDecorator:
    return clause(*(f"draft/{page}/{number:02}" for number in numbers))


def sampling_server(rev: Rev, texts: list[str]) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        message = validator(rev.t.SamplingMessage)({"role": "user", "content": {"type": "text", "text": SECRET}})
        answer = await ctx.create_message(messages=[message], max_tokens=5)
        texts.append(text_of(answer.content))
        return rev.text("done")

    return server_of(rev, call_tool=call_tool)


def sampled(rev: Rev, text: str) -> Any:
    content = {"type": "text", "text": text}
    return validator(rev.t.CreateMessageResult)({"role": "assistant", "model": "m", "content": content})


@both("sampling", (1, 1, 1), (7, 7, 7))
@among(ALL_REVISIONS)
async def test_a_person_can_deny_each_request_for_sampling(rev: Rev) -> None:
    texts: list[str] = []

    async def on_create_message(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(-1, "User rejected sampling request")

    async with client_of(rev, sampling_server(rev, texts), on_create_message=on_create_message) as client:
        with pytest.raises(MCPError):
            await client.call_tool(name="x")
    assert texts == []


@both("sampling", (3, 3, 3), (4, 4, 4), (11, 11, 11))
@among(ALL_REVISIONS)
async def test_a_person_sees_and_changes_what_the_model_and_the_server_get_and_no_log_does(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    texts: list[str] = []
    prompts: list[str] = []

    async def on_create_message(ctx: Any, params: Any) -> Any:
        prompt = text_of(params.messages[0].content).replace("4711", "***")  # The person edits the prompt,
        prompts.append(prompt)
        return sampled(rev, "never mind")  # and what the model has written.

    with caplog.at_level(logging.DEBUG):
        async with client_of(rev, sampling_server(rev, texts), on_create_message=on_create_message) as client:
            await client.call_tool(name="x")
    assert prompts == ["the launch code is ***"] and texts == ["never mind"]
    assert not [message for message in caplog.messages if "4711" in message or "never mind" in message]


@both("sampling", (10, 10, 10))
@among(ALL_REVISIONS)
async def test_a_client_limits_how_often_it_samples(rev: Rev) -> None:
    texts: list[str] = []
    allowance = TokenBucket(RateLimit(per_second=0.001, burst=2))

    async def on_create_message(ctx: Any, params: Any) -> Any:
        if allowance.acquire():
            raise JSONRPCError(-1, "too many requests")
        return sampled(rev, "yes")

    async with client_of(rev, sampling_server(rev, texts), on_create_message=on_create_message) as client:
        for _ in range(2):
            await client.call_tool(name="x")
        with pytest.raises(MCPError):
            await client.call_tool(name="x")
    assert texts == ["yes", "yes"]


@of_draft("elicitation", 2, 4, 7, 9, 11)
@among(since("2025-06-18"))
async def test_a_person_knows_which_server_asks_and_declines_or_cancels(rev: Rev) -> None:
    answers = iter(["decline", "cancel", "accept"])
    servers: list[str] = []
    allowance = TokenBucket(RateLimit(per_second=0.001, burst=2))

    async def call_tool(ctx: Any, params: Any) -> Any:
        answer = await elicit(rev, ctx, FORM)
        return rev.text(f"{answer.action} {answer.content}")

    async def on_elicit(ctx: Any, params: Any) -> Any:
        info = ctx.state.server.model_dump()
        servers.append((info.get("serverInfo") or info["_meta"]["io.modelcontextprotocol/serverInfo"])["name"])
        action = "cancel" if allowance.acquire() else next(answers)
        return rev.t.ElicitResult(action=action)

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_elicit=on_elicit) as client:
        results = [text_of((await client.call_tool(name="x")).content) for _ in range(3)]
    assert results == ["decline None", "cancel None", "cancel None"] and servers == ["served"] * 3


async def elicit(rev: Rev, ctx: Any, elicitation: dict[str, Any]) -> Any:
    """Ask by a form; the first revision that has forms has no other mode."""
    if hasattr(rev.t, "ElicitRequestFormParams"):
        return await ctx.elicit(rev.t.ElicitRequestFormParams.model_validate(elicitation))
    schema = rev.t.RequestedSchema.model_validate(elicitation["requestedSchema"])
    return await ctx.elicit(message=elicitation["message"], requested_schema=schema)


@of_draft("elicitation", 1, 6)
@among(since("2025-06-18"))
async def test_a_form_that_asks_for_a_secret_is_a_warning(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    name = f"card_number_{rev.id}_{uuid4().hex}"  # A name is logged once.

    async def call_tool(ctx: Any, params: Any) -> Any:
        for field in ("postcard", name):
            elicitation = {
                "message": "?",
                "requestedSchema": {"type": "object", "properties": {field: {"type": "string"}}},
            }
            await elicit(rev, ctx, elicitation)
        return rev.text("done")

    async def on_elicit(ctx: Any, params: Any) -> Any:
        return rev.t.ElicitResult(action="decline")

    with caplog.at_level(logging.WARNING, "mcp_runtime"):
        async with client_of(rev, server_of(rev, call_tool=call_tool), on_elicit=on_elicit) as client:
            await client.call_tool(name="x")
    assert [message for message in caplog.messages if "form" in message] == [
        f"a form requests {name!r}, and forms must not request secrets: use a URL elicitation"
    ]


@of_draft("elicitation", 1, 6)
@among(since("2025-06-18"))
async def test_so_is_one_that_a_handler_puts_into_its_result_itself(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    name, newest = f"password_{rev.id}_{id(caplog)}", ALL_REVISIONS[-1]
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {name: {"type": "string"}}}}
    interim = {"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create", "params": form}}}

    async def call_tool(ctx: Any, params: Any) -> Any:
        return newest.text("done") if params.input_responses else validator(newest.t.InputRequiredResult)(interim)

    async def on_elicit(ctx: Any, params: Any) -> Any:
        return rev.t.ElicitResult(action="decline")

    client = type("Asked", (rev.package.Client,), {"on_elicit": staticmethod(on_elicit)})
    with caplog.at_level(logging.WARNING, "mcp_runtime"):
        async with client.memory(*server_candidates(server_of(newest, call_tool=call_tool), "all")) as opened:
            assert text_of((await opened.call_tool(name="x")).content) == "done"
    assert caplog.messages == [f"a form requests {name!r}, and forms must not request secrets: use a URL elicitation"]


@both("roots", (6, 6, 6), (8, 8, 8), (9, 9, 9), (10, 10, 10), (11, 11, 11), (19, 19, 19))
@among(ALL_REVISIONS)
async def test_a_client_tells_the_roots_it_permits_that_are_there_and_a_server_stays_inside(
    rev: Rev, tmp_path: Path
) -> None:
    permitted = [tmp_path / "one", tmp_path / "two"]
    for folder in (*permitted, tmp_path / "private"):
        folder.mkdir()

    async def call_tool(ctx: Any, params: Any) -> Any:
        roots = (await ctx.list_roots()).roots
        inside = [is_within(str(tmp_path / name / "file"), roots) for name in ("one", "two", "private")]
        return rev.text(f"{len(roots)} {inside}")

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        uris = readable_roots(str(path) for path in permitted)
        return validator(rev.t.ListRootsResult)({"roots": [{"uri": uri} for uri in uris]})

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        assert text_of((await client.call_tool(name="x")).content) == "2 [True, True, False]"
        permitted[1].rmdir()
        assert text_of((await client.call_tool(name="x")).content) == "1 [True, False, False]"


@both("tools", (1, 1, 1), (4, 4, 4), (11, 12, 16))
@clause("2025-03-26/tools/07", "draft/tools/07")
@among(ALL_REVISIONS)
async def test_a_person_approves_each_call_of_a_tool_whatever_it_says_of_itself(rev: Rev) -> None:
    called: list[str] = []

    async def list_tools(ctx: Any, params: Any) -> Any:
        tool = {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        return rev.t.ListToolsResult(tools=[rev.t.Tool.model_validate(tool)])

    async def call_tool(ctx: Any, params: Any) -> Any:
        called.append(params.arguments["disk"])
        return rev.text("wiped")

    async def approve(name: str, arguments: Any) -> bool:
        return name == "wipe" and arguments["disk"] == "b"

    async with client_of(rev, server_of(rev, list_tools=list_tools, call_tool=call_tool)) as client:
        tools = ApprovedTools(client, approve)
        with pytest.raises(ProtocolViolationError, match="the call of the tool 'wipe' was not approved"):
            await tools.call("wipe", {"disk": "a"})
        await tools.call("wipe", {"disk": "b"})
    assert called == ["b"]
