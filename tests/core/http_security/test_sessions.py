"""Whose a session is, how many there are, what its calls do to each other; and requests that have none, on sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, server_of
from support.http.raw_client import (
    PARSERS,
    SESSIONS,
    STATELESS_REVISION,
    RawClient,
    Reader,
    Socket,
    address,
    answered,
    call,
    entered,
    opened,
    posted,
    request,
)
from support.http.sockets import listening
from support.http.stateless_headers import ACCEPTED, REFUSED
from support.servers.http_stress import Counts, served

from mcp_generated import v2025_11_25, v2026_07_28
from mcp_runtime.bindings.server import asgi_app
from mcp_runtime.errors import RequestTimeoutError
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports.http_server.app import HTTPLimits

pytestmark = pytest.mark.parametrize("parser", PARSERS)
both = pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
HELLO = {"protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


# ---- with a session -------------------------------------------------------------------------------------------------


@pytest.mark.fault("1.4/03")
@pytest.mark.advisory("GHSA-jpw9-pfvf-9f58", "CVE-2026-33946", "GHSA-qvqr-5cv7-wh35", "GHSA-84j6-jc92-77jm")
async def test_neither_session_nor_stream_of_a_user_serves_another(parser: str) -> None:
    """GHSA-jpw9-pfvf-9f58, CVE-2026-33946: whoever knows the ids of somebody else has nothing of it."""
    app = asgi_app(served(SESSIONS, Counts()), path="/mcp", owner=lambda scope: dict(scope["headers"]).get(b"x-user"))
    async with listening(app, http=parser) as port:
        where = f"127.0.0.1:{port}"
        first = await answered(where, posted(where, request(0, "initialize", HELLO), {"x-user": "alice"}))
        alice = RawClient(where, first.headers["mcp-session-id"])
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await alice.request(notification, x_user="alice")).status == 202
        answer = await alice.request(call(1, "steps", progress=1, steps=2), x_user="alice")
        last = answer.events[-1].id
        for user in ("bob", None, ""):
            for method in ("POST", "GET", "DELETE"):
                answer = await alice.request(call(2, "echo"), method, x_user=user, last_event_id=last)
                assert answer.status == 404 and b"result" not in answer.body
        assert (await alice.request(call(2, "echo"), x_user="alice")).status == 200


@pytest.mark.fault("1.4/09")
async def test_sessions_are_limited_in_number(parser: str) -> None:
    limit = 5
    app = server_of(ALL_REVISIONS[-1]).asgi(path="/mcp", limits=HTTPLimits(max_sessions=limit))
    async with listening(app, http=parser) as port:
        where = f"127.0.0.1:{port}"
        for _ in range(3 * limit):  # An opening that is refused takes no place.
            refused = await answered(where, posted(where, request(0, "initialize", HELLO | {"protocolVersion": 5})))
            assert "error" in refused.json and "mcp-session-id" not in refused.headers
        clients = [await opened(where) for _ in range(limit)]
        assert (await answered(where, posted(where, request(0, "initialize", HELLO)))).status == 503
        assert (await clients[0].request(b"", "DELETE")).status == 204
        assert (await (await opened(where)).request(request(1, "ping"))).status == 200


@pytest.mark.fault("1.4/09")
async def test_sessions_that_nobody_uses_end(parser: str) -> None:
    app = server_of(ALL_REVISIONS[-1]).asgi(path="/mcp", limits=HTTPLimits(session_idle_timeout=0.3))
    async with listening(app, http=parser) as port:
        where = f"127.0.0.1:{port}"
        opening = await answered(where, posted(where, request(0, "initialize", HELLO)))
        async with asyncio.timeout(15):
            while app.session_count:
                await asyncio.sleep(0.02)
        expired = RawClient(where, opening.headers["mcp-session-id"])
        assert (await expired.request(request(1, "ping"))).status == 404


@pytest.mark.fault("1.2/05", "1.4/06")
async def test_of_two_calls_with_one_id_each_stream_is_resumed_as_its_own(parser: str) -> None:
    client = await opened(address(parser))
    readers = [Reader(client) for _ in range(2)]
    for number, reader in enumerate(readers):
        whole = await reader.read(client.bytes(call(1, "steps", progress=1, steps=9, text=str(number))), 200)
        assert not whole
    for number, reader in enumerate(readers):
        await reader.resume()
        assert reader.messages[-1]["result"]["content"][0]["text"] == str(number)


@pytest.mark.fault("1.5/04")
async def test_a_cancellation_that_comes_late_or_says_nothing_changes_nothing(parser: str) -> None:
    client = await opened(address(parser))
    before = await client.status()
    connection = await Socket.to(client.where)
    await connection.write(client.bytes(call(7, "wait")))
    await client.until(waiting=before["waiting"] + 1)
    assert await client.call(1, "echo") == "echo"
    for params in (
        {"requestId": 1},
        {"requestId": 99},
        {"requestId": "7"},
        {"requestId": None},
        {"requestId": {}},
        {},
        5,
    ):
        notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert (await client.request(notification)).status in (202, 400)
    now = await client.status()
    assert (now["waiting"], now["cancelled"]) == (before["waiting"] + 1, before["cancelled"])
    assert (await client.request(b"", "DELETE")).status == 204
    connection.cut()


@both
@pytest.mark.fault("1.5/05")
async def test_a_quick_call_overtakes_a_slow_one(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    where = f"{parser} {protocol_version} overtaking"
    slow = asyncio.ensure_future(client.call(1, "meet", where=where, many=2, text="slow"))
    for number in range(2, 12):
        assert await client.call(number, "echo", text="quick") == "quick" and not slow.done()
    await client.call(12, "meet", where=where, many=2)
    assert await slow == "slow"


@pytest.mark.parametrize("package", [v2025_11_25, v2026_07_28], ids=[SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.5/11")
async def test_progress_without_end_does_not_put_the_end_of_a_call_off(parser: str, package: Any) -> None:
    where = address(parser)
    raw = RawClient(where, None)
    cancelled, values = (await raw.status())["cancelled"], list[float]()
    async with package.Client.http(f"http://{where}/mcp") as client:
        options = RequestOptions(timeout=10, max_timeout=1.0, on_progress=lambda update: values.append(update.progress))
        with pytest.raises(RequestTimeoutError):
            await client.call_tool(name="endless", options=options)
        assert len(values) > 1
        await raw.until(cancelled=cancelled + 1)


# ---- without a session ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("headers", "status", "code"), REFUSED)
@pytest.mark.fault("1.3/09", "1.3/10")
@pytest.mark.transport_rule("2026-07-28/19", "2026-07-28/31")
async def test_headers_that_do_not_say_what_the_body_says_run_nothing(
    parser: str, headers: dict[str, str | None], status: int, code: int | None
) -> None:
    client = RawClient(address(parser), None)
    before = (await client.status())["echoed"]
    answer = await client.request(call(1, "echo"), **headers)
    assert answer.status == status and (code is None or answer.json["error"]["code"] == code)
    assert (await client.status())["echoed"] == before


@pytest.mark.parametrize(
    "headers",
    [*ACCEPTED, {"mcp-name": " echo \t"}, {"mcp-name": "=?base64?ZWNobw==?="}, {"mcp-name": None, "MCP-NAME": "echo"}],
    ids=str,
)
@pytest.mark.fault("1.3/09", "1.3/16")
@pytest.mark.transport_rule("2026-07-28/24", "2026-07-28/30", "2026-07-28/35")
async def test_headers_in_any_of_their_forms_are_taken(parser: str, headers: dict[str, str | None]) -> None:
    client = RawClient(address(parser), None)
    answer = await client.request(call(1, "echo"), **{"mcp-name": "echo"} | headers)
    if headers.get("mcp-name") == "=?base64?eA==?=":  # A good form, of another name.
        assert answer.json["error"]["code"] == -32020
    else:
        assert answer.status == 200 and "mcp-session-id" not in answer.headers


@pytest.mark.fault("1.3/16")
@pytest.mark.transport_rule("2026-07-28/01", "2026-07-28/34")
async def test_there_is_no_get_and_no_delete_without_sessions(parser: str) -> None:
    client = RawClient(address(parser), None)
    for method in ("GET", "DELETE"):
        for headers in ({}, {"mcp_session_id": "x"}, {"last_event_id": "x-1"}):
            assert (await client.request(b"", method, **headers)).status == 405
    async with listening(
        server_of(ALL_REVISIONS[-1]).asgi(path="/mcp", revisions=[STATELESS_REVISION]), http=parser
    ) as port:
        client = RawClient(f"127.0.0.1:{port}", None)
        for method in ("GET", "DELETE"):
            answer = await client.request(b"", method, mcp_protocol_version=None)
            assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.fault("1.3/17")
@pytest.mark.transport_rule("2026-07-28/03")
async def test_nothing_outside_this_machine_reaches_a_server_that_was_told_nothing(parser: str) -> None:
    port = int(address(parser).rpartition(":")[2])
    with socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", port)) != 0


@pytest.mark.fault("1.3/18")
async def test_nothing_that_is_said_shows_the_inside(parser: str) -> None:
    client = await opened(address(parser))
    for body in (call(1, "raise"), call(2, "steps", steps="x"), request(3, "resources/read", {"uri": "a:b"}), b"{"):
        answer = await client.request(body)
        for word in ("Traceback", ".py", "hunter2", " at 0x", "/home", "/tmp", "TypeError"):
            assert word not in answer.body.decode(), json.dumps(body if isinstance(body, dict) else "")
