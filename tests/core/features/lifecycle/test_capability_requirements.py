"""Params that need a capability of their own: the mode of an elicitation, tools for a model, the context of servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    INVALID_PARAMS,
    Rev,
    among,
    before,
    client_of,
    raw_server,
    server_of,
    since,
    wire_to,
)

from mcp_runtime.errors import ProtocolViolationError

FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
URL = {"mode": "url", "message": "?", "url": "https://example.com/in", "elicitationId": "e1"}
TOOL = {"name": "t", "inputSchema": {"type": "object"}}

ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
GATED = [rev for rev in since("2025-11-25") if not rev.stateless]
FREE = [rev for rev in before("2025-11-25") if not rev.stateless]
STATELESS = [rev for rev in ALL_REVISIONS if rev.stateless]


def sample(**more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 1, **more}


# What is asked, what the client has declared, and what is missing then: as the pages of client features say it.
Case = tuple[str, dict[str, Any], dict[str, Any], str]
CASES: list[Case] = [
    (ELICIT, FORM, {"elicitation": {}}, ""),
    (ELICIT, FORM, {"elicitation": {"form": {}}}, ""),
    (ELICIT, {"mode": "form", **FORM}, {"elicitation": {"form": {}, "url": {}}}, ""),
    (ELICIT, FORM, {"elicitation": {"url": {}}}, "client.elicitation.form"),
    (ELICIT, {"mode": "form", **FORM}, {"elicitation": {"url": {}}}, "client.elicitation.form"),
    (ELICIT, URL, {"elicitation": {"url": {}}}, ""),
    (ELICIT, URL, {"elicitation": {"form": {}, "url": {}}}, ""),
    (ELICIT, URL, {"elicitation": {}}, "client.elicitation.url"),
    (ELICIT, URL, {"elicitation": {"form": {}}}, "client.elicitation.url"),
    (SAMPLE, sample(), {"sampling": {}}, ""),
    (SAMPLE, sample(tools=[TOOL], toolChoice={"mode": "auto"}), {"sampling": {"tools": {}}}, ""),
    (SAMPLE, sample(tools=[TOOL]), {"sampling": {}}, "client.sampling.tools"),
    (SAMPLE, sample(tools=[]), {"sampling": {"context": {}}}, "client.sampling.tools"),
    (SAMPLE, sample(toolChoice={"mode": "none"}), {"sampling": {}}, "client.sampling.tools"),
    (SAMPLE, sample(includeContext="none"), {"sampling": {}}, ""),
    (SAMPLE, sample(includeContext="thisServer"), {"sampling": {"context": {}}}, ""),
    (SAMPLE, sample(includeContext="thisServer"), {"sampling": {"tools": {}}}, "client.sampling.context"),
    (SAMPLE, sample(includeContext="allServers"), {"sampling": {}}, "client.sampling.context"),
]
BY_CASE = pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{number}" for number, case in enumerate(CASES)])


def willing(rev: Rev) -> dict[str, Any]:
    """Handlers that say yes to everything."""

    async def on_elicit(ctx: Any, params: Any) -> Any:
        return rev.t.ElicitResult(action="accept", content={})

    async def on_create_message(ctx: Any, params: Any) -> Any:
        return rev.t.CreateMessageResult(role="assistant", content=rev.t.TextContent(text="!"), model="m")

    return {"on_create_message": on_create_message} | (
        {"on_elicit": on_elicit} if hasattr(rev.t, "ElicitResult") else {}
    )


def asking(rev: Rev, method: str, sent: dict[str, Any]) -> Any:
    """A server whose tool asks this, and says what became of it."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        row = rev.revision.table("server_to_client")[method]
        try:
            return rev.text(type(await ctx._send_request(row, sent, None)).__name__)
        except ProtocolViolationError as error:
            return rev.text(str(error))

    return server_of(rev, call_tool=call_tool)


@BY_CASE
@among(GATED)
async def test_a_server_asks_only_for_what_the_client_can_do(rev: Rev, case: Case) -> None:
    method, sent, capabilities, missing = case
    async with client_of(rev, asking(rev, method, sent), capabilities=capabilities, **willing(rev)) as client:
        outcome = (await client.call_tool(name="x")).content[0].text
    if not missing:
        assert outcome in ("ElicitResult", "CreateMessageResult")
    else:
        assert outcome.startswith(f"{method!r} in {rev} with ")
        assert outcome.endswith(f" needs the capability {missing!r}, which was not declared")


@BY_CASE
@among(GATED)
async def test_a_client_refuses_what_it_has_not_declared(rev: Rev, case: Case) -> None:
    method, sent, capabilities, missing = case
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, capabilities=capabilities, **willing(rev)).__aenter__())
    await wire.welcome(rev)
    client = await opening
    answer = await wire.request(rev.request(1, method, sent))
    if missing and missing != "client.sampling.context":  # A client may ignore which context a server would like.
        assert answer["error"]["code"] == INVALID_PARAMS and repr(missing) in answer["error"]["message"]
    else:
        assert "result" in answer
    await client.close()


@BY_CASE
@among(STATELESS)
async def test_a_result_asks_only_for_what_the_client_can_do(rev: Rev, case: Case) -> None:
    method, sent, capabilities, missing = case
    sent = {key: value for key, value in sent.items() if key != "elicitationId"}

    async def call_tool(ctx: Any, params: Any) -> Any:
        result = {"resultType": "input_required", "inputRequests": {"q": {"method": method, "params": sent}}}
        return rev.t.InputRequiredResult.model_validate(result)

    async with wire_to(server_of(rev, call_tool=call_tool)) as wire:
        request = rev.request(1, "tools/call", {"name": "x"})
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities
        answer = await wire.request(request)
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {}
        nothing = await wire.request(request)
    assert nothing["error"]["code"] == -32021
    assert set(nothing["error"]["data"]["requiredCapabilities"]) == {method.partition("/")[0]}
    if not missing:
        assert answer["result"]["inputRequests"]["q"]["method"] == method
        return
    _, feature, part = missing.split(".")
    assert answer["error"]["code"] == -32021
    assert answer["error"]["data"] == {"requiredCapabilities": {feature: {part: {}}}}


@pytest.mark.parametrize("context", ["none", "thisServer", "allServers"])
@among(FREE)
async def test_revisions_without_these_capabilities_have_no_gates(rev: Rev, context: str) -> None:
    assert not [row for row in rev.revision.rows if row.requirements]
    requests = {SAMPLE: sample(includeContext=context), ELICIT: FORM}
    for method in requests.keys() & rev.revision.table("server_to_client").keys():
        capabilities = {"elicitation": {"url": {}}}
        server = asking(rev, method, requests[method])
        async with client_of(rev, server, capabilities=capabilities, **willing(rev)) as client:
            assert (await client.call_tool(name="x")).content[0].text in ("CreateMessageResult", "ElicitResult")
