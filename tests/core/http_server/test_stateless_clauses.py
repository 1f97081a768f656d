"""The rules of the transport page of 2026-07-28, which knows no sessions: a row or a test each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.endpoints import STATELESS, Rev, among, server_of
from support.http.asgi_client import BOTH, web
from support.http.progress import EVENTS, call, ids, served
from support.http.raw_server import Got, Raw, discover, reply, result, serving, text_result
from support.http.stateless_headers import ACCEPTED, REFUSED

from mcp_products.fast.heads import CachedRequestHeadParser
from mcp_runtime.errors import MCPError
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.http.server_rules import ServedRevisions
from mcp_runtime.http.sse import KEEP_ALIVE_COMMENT
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports.http_server.app import HTTPLimits

MISMATCH, UNSUPPORTED, NO_METHOD = -32020, -32022, -32601


@among(STATELESS)
@pytest.mark.parametrize(("headers", "status", "code"), REFUSED)
@pytest.mark.transport_rule("2026-07-28/19", "2026-07-28/22", "2026-07-28/30")
async def test_a_request_that_breaks_a_rule_runs_nothing(rev: Rev, headers: Any, status: int, code: int | None) -> None:
    ran = asyncio.Event()
    async with web(rev, served(rev, ended=ran)) as client:
        answer = await client.answered(body=call(rev, loud=False), headers=headers)
        assert answer.status == status and not ran.is_set()
        assert code is None or answer.json["error"]["code"] == code


@among(STATELESS)
@pytest.mark.parametrize("headers", ACCEPTED)
@pytest.mark.transport_rule("2026-07-28/35")
async def test_a_request_that_keeps_the_rules_is_answered(rev: Rev, headers: Any) -> None:
    async with web(rev, served(rev)) as client:
        assert (await client.answered(body=call(rev, loud=False), headers=headers)).status == 200


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/05", "2026-07-28/07", "2026-07-28/20")
async def test_other_bodies_than_requests_and_notifications_are_refused(rev: Rev) -> None:
    async with web(rev, served(rev)) as client:
        for body in ({"jsonrpc": "2.0", "id": 1, "result": {}}, [call(rev)]):
            sent: Any = body
            assert (await client.answered(body=sent, headers={"mcp-protocol-version": rev.id})).status == 400
        notification = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": rev.meta()}}
        answer = await client.answered(body=notification)
        assert (answer.status, answer.content) == (202, b"")
        absent = await client.answered(body=rev.request(1, "no/such"))
        assert (absent.status, absent.json["error"]["code"]) == (404, NO_METHOD)
        older = call(rev, loud=False)
        older["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1999-01-01"
        answer = await client.answered(body=older, headers={"mcp-protocol-version": "1999-01-01"})
        assert (answer.status, answer.json["error"]["code"]) == (400, UNSUPPORTED)


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/10")
async def test_a_stream_holds_what_belongs_to_its_request_and_ends_with_its_answer(rev: Rev) -> None:
    async with web(rev, served(rev)) as client:
        answer = await client.answered(body=call(rev))
        assert answer.headers["content-type"] == EVENTS and answer.headers["x-accel-buffering"] == "no"
        assert ids(answer) == [1] and "id" in answer.json_messages[-1] and not any(event.id for event in answer.events)


@among(STATELESS)
async def test_a_stranger_cannot_fill_the_memory_for_heads(rev: Rev) -> None:
    heads = CachedRequestHeadParser(OriginPolicy.create(None, None), ServedRevisions.create({rev.id: rev.revision}))
    for number in range(50):
        raw = [(b"host", b"localhost"), (b"accept", BOTH.encode()), (b"x-filler", b"%05d" % number * 1000)]
        assert heads.read("POST", raw)[0].headers["x-filler"]
    assert not heads._cache


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/11")
async def test_what_a_server_asks_is_in_a_result_and_never_a_request(rev: Rev) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    form = rev.t.ElicitRequestFormParams.model_validate({"message": "Who?", "requestedSchema": schema})

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        return rev.text(str((await ctx.elicit(form)).action))

    body = call(rev)
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = await client.answered(body=body)
        assert [message.get("method") for message in answer.json_messages] == ["notifications/progress", None]
        result = answer.json_messages[-1]["result"]
        assert result["resultType"] == "input_required"
        assert [request["method"] for request in result["inputRequests"].values()] == ["elicitation/create"]


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/14")
async def test_who_listens_while_nothing_happens_gets_comments_and_the_end_is_said(rev: Rev) -> None:
    server = server_of(rev, capabilities={"tools": {"listChanged": True}})
    params = {"notifications": {"toolsListChanged": True}}
    async with web(rev, server, limits=HTTPLimits(keep_alive=0.02)) as client:
        listening = client.request(body=rev.request("sub", "subscriptions/listen", params))
        await listening.messages(1)
        await listening.until(lambda answer: answer.content.count(KEEP_ALIVE_COMMENT) >= 3)
        assert len(listening.json_messages) == 1, "comments are not events"
        await client.app.close()
        assert ids(await listening.whole()) == ["sub"]


# ---- the client -----------------------------------------------------------------------------------------------------

POSTED: list[Any] = [
    pytest.param(lambda got, rev: got.method == "POST", id="nothing but POST, to one endpoint"),
    pytest.param(lambda got, rev: isinstance(got.body, dict) and "method" in got.body, id="one request, no answer"),
    pytest.param(lambda got, rev: {"application/json", EVENTS} <= set(got.headers["accept"].split(", ")), id="accepts"),
    pytest.param(lambda got, rev: got.headers["mcp-protocol-version"] == rev.id == _version(got), id="the revision"),
    pytest.param(lambda got, rev: got.headers["mcp-method"] == got.body["method"], id="the method"),
    pytest.param(lambda got, rev: got.headers.get("mcp-name") == _named(got), id="the name"),
    pytest.param(lambda got, rev: not {"mcp-session-id", "last-event-id"} & {*got.headers}, id="no session"),
]


def _version(got: Got) -> str:
    return str(got.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"])


def _named(got: Got) -> str | None:
    name: str | None = got.body["params"].get("name", got.body["params"].get("uri"))
    return name


@among(STATELESS)
@pytest.mark.parametrize("holds", POSTED)
@pytest.mark.transport_rule("2026-07-28/04", "2026-07-28/06", "2026-07-28/22")
async def test_what_a_client_sends(rev: Rev, holds: Callable[[Got, Rev], bool]) -> None:
    async def refuse(got: Got, write: Any) -> None:
        error = {"jsonrpc": "2.0", "id": got.body["id"], "error": {"code": -32601, "message": "no"}}
        await write(reply(json.dumps(error).encode(), 404, headers={"mcp-session-id": "ignored"}))

    async def slow(got: Got, write: Any) -> None:
        if got.body["params"]["name"] == "slow":
            await asyncio.Event().wait()
        done = {"resultType": "complete", **text_result("done")}
        await write(reply(result(got, done), headers={"mcp-session-id": "ignored"}))

    raw = Raw({"server/discover": discover, "tools/call": slow, "resources/read": refuse, "tools/list": refuse})
    async with serving(raw), rev.package.Client.http(raw.url) as client:
        assert (await client.call_tool(name="quick")).content[0].text == "done"
        with pytest.raises(MCPError):
            await client.call_tool(name="slow", options=RequestOptions(timeout=0.1))
        for refused in (client.read_resource(uri="x:y"), client.list_tools()):
            with pytest.raises(MCPError):
                await refused
    assert len(raw.seen) >= 4
    for got in raw.seen:
        assert holds(got, rev), (got.method, got.rpc, got.headers)
