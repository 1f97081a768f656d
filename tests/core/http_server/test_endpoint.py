"""One endpoint, in process: what each kind of request is answered with, revision by revision."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from support.clock import LoopClock
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, among, before, server_of, since
from support.http.asgi_client import Web, web
from support.http.echo import call, echo

from mcp_runtime.bindings.server import asgi_app
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.transports.http_server.app import HTTPLimits

CODES = {"version": -32022, "mismatch": -32020, "method": -32601, "params": -32602, "request": -32600, "parse": -32700}


@among(ALL_REVISIONS)
@pytest.mark.transport_rule("2026-07-28/08")
async def test_a_call_is_answered_by_one_json_body(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=call(rev))
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json["id"] == 1 and answer.json["result"]["content"][0]["text"] == "echo"


@among(ALL_REVISIONS)
@pytest.mark.transport_rule("2026-07-28/08")
async def test_a_client_that_takes_streams_alone_gets_one(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=call(rev), headers={"accept": "text/event-stream"})
        assert answer.headers["content-type"] == "text/event-stream" and answer.headers["x-accel-buffering"] == "no"
        assert [message["id"] for message in answer.json_messages] == [1]


@among(ALL_REVISIONS)
async def test_what_a_handler_says_before_its_answer_goes_on_the_same_stream(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        await ctx.progress(2)
        return rev.text("done")

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = await client.answered(body=call(rev, _meta={"progressToken": "t"}))
        assert [message.get("params", {}).get("progress") for message in answer.json_messages] == [1, 2, None]
        assert answer.json_messages[-1]["id"] == 1


@among(since("2025-11-25", HANDSHAKE))
@pytest.mark.transport_rule("2025-11-25/02")
async def test_a_stream_begins_with_an_event_that_says_where_to_resume(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=call(rev), headers={"accept": "text/event-stream"})
        assert answer.events[0].data == b"" and answer.events[0].id and answer.events[0].retry


@among(before("2025-11-25"))
@pytest.mark.transport_rule("2025-11-25/02")
async def test_older_clients_get_no_empty_event(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=call(rev), headers={"accept": "text/event-stream"})
        assert all(event.data for event in answer.events)


@among(HANDSHAKE)
async def test_notifications_and_answers_are_accepted_without_a_body(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        for body in ({"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": 9, "result": {}}):
            answer = await client.answered(body=body)
            assert (answer.status, answer.content) == (202, b"")


@among(HANDSHAKE)
async def test_a_session_has_an_id_that_nobody_can_guess_and_ends_with_delete(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        assert client.session is not None and len(client.session) >= 32
        assert all("!" <= character <= "~" for character in client.session)
        again = Web(client.app, rev)
        await again.open()
        assert again.session != client.session
        assert (await again.answered("DELETE")).status == 204
        for method in ("POST", "GET", "DELETE"):
            assert (await again.answered(method, call(rev))).status == 404
        assert (await client.answered(body=call(rev))).status == 200


@among(HANDSHAKE)
@pytest.mark.parametrize("id", [None, "no-such-session", "swap"])
async def test_a_request_without_its_session_is_turned_away(rev: Rev, id: str | None) -> None:
    async with web(rev, echo(rev)) as client:
        named = str(client.session).swapcase() if id == "swap" else id
        answer = await client.answered(body=call(rev), headers={"mcp-session-id": named})
        assert answer.status == (400 if id is None else 404) and answer.json["id"] == 1


@among(HANDSHAKE)
async def test_another_user_does_not_find_the_session(rev: Rev) -> None:
    alice, bob = (SimpleNamespace(is_authenticated=True, identity=name, display_name="Al") for name in ("alice", "bob"))
    client = Web(echo(rev).asgi(), rev)
    hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    opened = await client.answered(body=rev.request(0, "initialize", hello), user=alice)
    client.session = opened.headers["mcp-session-id"]
    for user, status in ((bob, 404), (None, 404), (alice, 200)):
        assert (await client.answered(body=rev.request(1, "ping"), user=user)).status == status
        if user is not alice:
            assert (await client.answered("DELETE", user=user)).status == 404
    await client.app.close()


@among(ALL_REVISIONS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": None}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({"accept": "text/html"}, 406),
        ({"content-length": "99999999999"}, 413),
        ({"content-length": str(10**18)}, 413),
        ({"content-length": "9" * 400}, 413),
        ({"content-length": "x"}, 400),
        ({"host": None}, 400),
    ],
)
async def test_a_head_that_breaks_a_rule_is_turned_away_before_anything_runs(
    rev: Rev, headers: dict[str, str | None], status: int
) -> None:
    ran = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        ran.set()
        return rev.text("ran")

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = await client.answered(body=call(rev), headers=headers)
        assert answer.status == status and "error" in answer.json and not ran.is_set()


@among(ALL_REVISIONS)
async def test_a_body_that_outgrows_the_limit_is_turned_away_while_it_is_read(rev: Rev) -> None:
    async with web(rev, echo(rev), limits=HTTPLimits(max_body=1000)) as client:
        assert (await client.answered(body=call(rev, "x" * 2000))).status == 413
        assert (await client.answered(body=call(rev))).status == 200


@among(ALL_REVISIONS)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "parse"),
        (b"", "parse"),
        (b"\xff\xfe{}", "parse"),
        (b"5", "request"),
        (b"{}", "request"),
        (b"[]", "request"),
    ],
)
async def test_what_is_no_message_is_a_bad_request(rev: Rev, body: bytes, code: str) -> None:
    async with web(rev, echo(rev)) as client:
        headers = {"mcp-protocol-version": rev.id} if rev.stateless else {}
        answer = await client.answered(body=body, headers=headers)
        assert answer.status == 400 and answer.json["error"]["code"] == CODES[code]


@among(ALL_REVISIONS)
async def test_errors_tell_nothing_of_the_inside(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=call(rev, "fail"))
        assert answer.json["error"] == {"code": -32603, "message": "internal error"}


@among(HANDSHAKE)
async def test_a_session_speaks_only_revisions_there_are(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=call(rev), headers={"mcp-protocol-version": "1999-01-01"})
        assert answer.status == 400
        assert (await client.answered(body=call(rev), headers={"mcp-protocol-version": None})).status == 200


@among(STATELESS)
@pytest.mark.parametrize(
    ("headers", "meta", "status", "code"),
    [
        ({"mcp-protocol-version": None}, {}, 400, "mismatch"),
        ({"mcp-protocol-version": "v9"}, {}, 400, "mismatch"),
        ({"mcp-protocol-version": "v9"}, {"io.modelcontextprotocol/protocolVersion": "v9"}, 400, "version"),
        ({}, {"io.modelcontextprotocol/protocolVersion": "v9"}, 400, "mismatch"),
        ({"mcp-method": None}, {}, 400, "mismatch"),
        ({"mcp-method": "TOOLS/CALL"}, {}, 400, "mismatch"),
        ({"mcp-name": None}, {}, 400, "mismatch"),
        ({"mcp-name": "other"}, {}, 400, "mismatch"),
        ({"mcp-name": "=?base64?ZWNobw?="}, {}, 400, "mismatch"),
    ],
)
@pytest.mark.transport_rule("2026-07-28/31")
async def test_headers_say_what_the_body_says(
    rev: Rev, headers: dict[str, str | None], meta: dict[str, Any], status: int, code: str
) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=call(rev, _meta=meta), headers=headers)
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (status, CODES[code], 1)
        if code == "version":
            assert answer.json["error"]["data"] == {"supported": [rev.id], "requested": "v9"}


@among(STATELESS)
@pytest.mark.parametrize("name", ["echo", "  echo\t", "=?base64?ZWNobw==?="])
@pytest.mark.transport_rule("2026-07-28/24")
async def test_a_name_may_come_with_spaces_around_it_or_in_its_base64_form(rev: Rev, name: str) -> None:
    async with web(rev, echo(rev)) as client:
        assert (await client.answered(body=call(rev), headers={"mcp-name": name})).status == 200


@among(STATELESS)
@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "unknown/method"])
@pytest.mark.transport_rule("2026-07-28/21")
async def test_a_method_there_is_not_is_not_found(rev: Rev, method: str) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=rev.request(3, method))
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (404, CODES["method"], 3)


@among(STATELESS)
async def test_there_is_post_alone_and_no_session(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        for method in ("GET", "DELETE", "PUT"):
            answer = await client.answered(method, headers={"mcp-session-id": "x"})
            assert (answer.status, answer.headers["allow"]) == (405, "POST")
        answer = await client.answered(body=call(rev), headers={"mcp-session-id": "x", "last-event-id": "a-1"})
        assert answer.status == 200 and "mcp-session-id" not in answer.headers


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/27")
async def test_arguments_that_headers_repeat_have_to_agree_with_them(rev: Rev) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    async def list_tools(ctx: Any, params: Any) -> Any:
        tool = rev.t.Tool.model_validate({"name": "echo", "inputSchema": schema})
        return rev.t.ListToolsResult(tools=[tool])

    async with web(rev, echo(rev, list_tools=list_tools)) as client:
        body = call(rev, arguments={"region": "Hello"})
        good = await client.answered(body=body, headers={"mcp-param-region": "=?base64?SGVsbG8=?="})
        bad = await client.answered(body=body, headers={"mcp-param-region": "=?base64?SGVsbG8?="})
        none = await client.answered(body=body)
        assert [answer.status for answer in (good, bad, none)] == [200, 400, 400]
        assert bad.json["error"]["code"] == none.json["error"]["code"] == CODES["mismatch"]


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/17")
async def test_a_client_that_leaves_cancels_its_request(rev: Rev) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = client.request(body=call(rev))
        await started.wait()
        await answer.leave()
        async with asyncio.timeout(20):
            await cancelled.wait()


@among(HANDSHAKE)
async def test_a_client_of_a_session_that_leaves_cancels_nothing(rev: Rev) -> None:
    started, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        started.set()
        await go.wait()
        done.set()
        return rev.text("done")

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = client.request(body=call(rev))
        await started.wait()
        answer._disconnected.set()
        go.set()
        async with asyncio.timeout(20):
            await done.wait()


@among(before("2025-06-18"))
async def test_a_batch_is_answered_in_one_body(rev: Rev) -> None:
    async with web(rev, echo(rev)) as client:
        answer = await client.answered(body=[call(rev, id=1), call(rev, id="1"), {"jsonrpc": "2.0", "method": "x"}])  # type: ignore[arg-type]
        if rev.revision.batches:
            assert sorted(str(response["id"]) for response in answer.json) == ["1", "1"]
        else:
            assert answer.status == 400
        many = await client.answered(body=[call(rev, id=number) for number in range(101)])  # type: ignore[arg-type]
        assert many.status == 413


async def test_one_endpoint_serves_every_revision_at_once() -> None:
    app = asgi_app(*(echo(rev) for rev in ALL_REVISIONS))
    clients = [Web(app, rev) for rev in ALL_REVISIONS]
    for client in clients:
        if not client.rev.stateless:
            opened = await client.open()
            assert opened.json["result"]["protocolVersion"] == client.rev.id
    answers = await asyncio.gather(*(client.answered(body=call(client.rev)) for client in clients))
    assert [answer.status for answer in answers] == [200] * len(ALL_REVISIONS)
    assert {json.dumps(answer.json["id"]) for answer in answers} == {"1"}
    await app.close()


async def test_sessions_are_limited_in_number_and_end_when_they_are_idle() -> None:
    rev = HANDSHAKE[-1]
    clock = LoopClock()
    app = echo(rev).asgi(limits=HTTPLimits(max_sessions=2, session_idle_timeout=5))
    first, second, third = (Web(app, rev) for _ in range(3))
    await first.open()
    await second.open()
    assert (await third.open()).status == 503
    clock.forward(6)
    async with asyncio.timeout(10):
        while app.session_count:
            await asyncio.sleep(0)
    assert (await first.answered(body=call(rev))).status == 404
    assert (await third.open()).status == 200
    await app.close()


@among(ALL_REVISIONS)
async def test_the_status_of_an_error_is_that_of_its_revision(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        raise JSONRPCError(-32602, "no such tool")

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = await client.answered(body=call(rev))
        assert (answer.status, answer.json["error"]["code"]) == (400 if rev.stateless else 200, CODES["params"])
