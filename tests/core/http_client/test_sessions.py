"""How a client finds out what a server speaks, and keeps a session with it."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import nullcontext
from typing import Any

import pytest
from support.clock import LoopClock
from support.http.raw_server import (
    NEWEST_WITH_SESSIONS,
    STREAM,
    Got,
    Raw,
    Write,
    always,
    call,
    discover,
    reply,
    result,
    run,
    serving,
    text,
    text_result,
)

from mcp_generated import App, Client, v2025_11_25, v2026_07_28
from mcp_runtime.bindings.client import negotiate
from mcp_runtime.errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.http.sse import KEEP_ALIVE_COMMENT, encode
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports.http_client.connection import HTTPOptions

SHORT = RequestOptions(timeout=0.3)


@pytest.mark.clause("2025-03-26/transports/35", "2025-03-26/transports/38", "2025-03-26/transports/39")
def test_a_lost_session_is_opened_again_once_without_the_old_id_and_the_calls_go_through() -> None:
    async def test() -> None:
        raw = Raw()

        async def check(got: Got, write: Write) -> None:
            if got.headers["mcp-session-id"] != raw.session:
                await write(reply(b"", 404))
            else:
                await raw.default_answer(got, write)

        raw.answers["tools/call"] = check
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            assert text(await client.call_tool(name="x")) == "usual"
            raw.session = "s-2"
            answers = await asyncio.gather(*(client.call_tool(name="x") for _ in range(5)))
            assert [text(answer) for answer in answers] == ["usual"] * 5
        opened = raw.requests_of("initialize")
        assert len(opened) == 2 and not any("mcp-session-id" in got.headers for got in opened)
        assert [got.headers["mcp-session-id"] for got in raw.requests_of("notifications/initialized")] == ["s-1", "s-2"]
        assert [got.headers["mcp-session-id"] for got in raw.requests_of("DELETE")] == ["s-2"]

    run(test())


def test_a_session_that_never_lasts_fails_the_call() -> None:
    async def test() -> None:
        with pytest.raises(ConnectionClosedError, match="ended the new session at once"):
            await call(Raw({"tools/call": always(reply(b"", 404))}))

    run(test())


@pytest.mark.parametrize("id", ["a b", "\xe9", "x" * 5000], ids=["space", "latin", "long"])
@pytest.mark.fault("1.5/15")
def test_a_hostile_session_id_is_refused(id: str) -> None:
    async def test() -> None:
        raw = Raw(session=id)
        with pytest.raises(InvalidResponseError, match="visible ASCII"):
            await call(raw)
        assert {got.rpc for got in raw.seen} == {"initialize"}

    run(test())


@pytest.mark.transport_rule("2025-11-25/05")
def test_what_the_server_says_by_itself_is_answered_and_its_stream_is_opened_again() -> None:
    class RootsClient(v2025_11_25.Client):
        async def on_list_roots(self, ctx: Any, params: Any) -> v2025_11_25.types.ListRootsResult:
            return v2025_11_25.types.ListRootsResult(roots=[])

    async def test() -> None:
        answered = asyncio.Event()

        async def speak(got: Got, write: Write) -> None:
            number = {"": 1, "e-1": 2}.get(got.headers.get("last-event-id", ""))
            if number is None:
                await answered.wait()
                return
            request = {"jsonrpc": "2.0", "id": f"q{number}", "method": "roots/list"}
            await write(STREAM + encode(json.dumps(request).encode(), id=f"e-{number}", retry=0))

        async def receive_answer(got: Got, write: Write) -> None:
            await write(reply(b"", 202))
            if len(raw.requests_of("answer")) == 2:
                answered.set()

        raw = Raw({"GET": speak, "answer": receive_answer})
        async with serving(raw), RootsClient.http(raw.url) as client:
            await answered.wait()
            assert text(await client.call_tool(name="x")) == "usual"
        assert [got.body["id"] for got in raw.requests_of("answer")] == ["q1", "q2"]
        assert all(got.headers["mcp-session-id"] == "s-1" for got in raw.requests_of("answer"))

    run(test())


@pytest.mark.parametrize("status", [401, 403, 429])
def test_who_may_not_ask_does_not_fall_back(status: int) -> None:
    async def test() -> None:
        raw = Raw({rpc: always(reply(b"", status)) for rpc in ("server/discover", "initialize", "GET")})
        async with serving(raw):
            clients = [v2025_11_25.Client.http(raw.url), v2026_07_28.Client.http(raw.url)]
            with pytest.raises(HTTPStatusError) as caught:
                await negotiate(*clients)
            assert caught.value.status == status
            with pytest.raises(HTTPStatusError):
                async with v2025_11_25.Client.http(raw.url):
                    pass
        assert [got.rpc for got in raw.seen] == ["server/discover", "initialize"]

    run(test())


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_broken_server_is_asked_to_initialize_and_says_what_is_wrong(status: int) -> None:
    async def test() -> None:
        raw = Raw({rpc: always(reply(b"", status)) for rpc in ("server/discover", "initialize", "GET")})
        async with serving(raw):
            with pytest.raises(HTTPStatusError) as caught:
                await negotiate(v2025_11_25.Client.http(raw.url), v2026_07_28.Client.http(raw.url))
            assert caught.value.status == status
        assert [got.rpc for got in raw.seen] == ["server/discover", "initialize"]

    run(test())


NOTHING_TO_READ = {
    "500, a page": reply(b"<html>", 500, "text/html"),
    "500, JSON": reply(b'{"error": "internal"}', 500),
    "500, an error": reply(b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32603, "message": "KeyError"}}', 500),
    "502": reply(b"", 502),
    "404, an error": reply(b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32601, "message": "no method"}}', 404),
    "200, nothing": reply(b"", 200),
    "200, a page": reply(b"<html>", 200, "text/html"),
    "200, other JSON": reply(b'{"ok": true}', 200),
    "202": reply(b"", 202, ""),
    "204": reply(b"", 204, ""),
}


@pytest.mark.parametrize("answer", NOTHING_TO_READ)
@pytest.mark.transport_rule("2026-07-28/33")
def test_a_server_that_does_not_know_discovery_may_say_so_in_any_way(answer: str) -> None:
    async def test() -> None:
        raw = Raw({"server/discover": always(NOTHING_TO_READ[answer])})
        async with serving(raw):
            async with Client(raw.url) as client:
                assert client.protocol_version == NEWEST_WITH_SESSIONS
                assert (await client.call_tool("x")).text == "usual"
            async with Client(App.proxy(raw.url)) as client:
                assert (await client.call_tool("x")).text == "usual"

    run(test())


@pytest.mark.parametrize("result", ["{}", "null", "[]", '{"supportedVersions": "none"}'])
def test_a_server_may_answer_discovery_with_a_result_that_says_nothing(result: str) -> None:
    async def discovered(got: Got, write: Write) -> None:
        await write(reply(b'{"jsonrpc": "2.0", "id": %d, "result": %s}' % (got.body["id"], result.encode())))

    async def test() -> None:
        raw = Raw({"server/discover": discovered})
        async with serving(raw), Client(raw.url) as client, Client(App.proxy(raw.url)) as proxied:
            assert client.protocol_version == NEWEST_WITH_SESSIONS
            assert (await proxied.call_tool("x")).text == "usual"

    run(test())


def test_a_slow_server_is_not_an_older_one() -> None:
    async def wait(got: Got, write: Write) -> None:
        await asyncio.sleep(20)

    async def test() -> None:
        raw = Raw({"server/discover": wait})
        async with serving(raw):
            clients = [v2025_11_25.Client.http(raw.url), v2026_07_28.Client.http(raw.url, connect_options=SHORT)]
            with pytest.raises(RequestTimeoutError):
                await negotiate(*clients)
        assert len(raw.seen) == 1

    run(test())


@pytest.mark.transport_rule("2026-07-28/33")
def test_a_server_with_a_handshake_is_found_out() -> None:
    async def test() -> None:
        raw = Raw({"server/discover": always(reply(b"", 400))})
        async with serving(raw):
            client: Any = await negotiate(v2025_11_25.Client.http(raw.url), v2026_07_28.Client.http(raw.url))
            assert client.revision.id == NEWEST_WITH_SESSIONS
            assert text(await client.call_tool(name="x")) == "usual"
            await client.close()
            await client.close()
        [call] = raw.requests_of("tools/call")
        assert call.headers["mcp-protocol-version"] == NEWEST_WITH_SESSIONS and "mcp-method" not in call.headers

    run(test())


def test_a_client_that_speaks_an_older_revision_keeps_the_session_from_the_first_message() -> None:
    async def test() -> None:
        raw = Raw()
        async with serving(raw), v2026_07_28.Client.http(raw.url, revisions=[NEWEST_WITH_SESSIONS]) as client:
            assert text(await client.call_tool(name="x")) == "usual"
        [opened], [call] = raw.requests_of("notifications/initialized"), raw.requests_of("tools/call")
        assert opened.headers["mcp-session-id"] == call.headers["mcp-session-id"] == "s-1"

    run(test())


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.transport_rule("2026-07-28/32")
def test_a_server_that_refuses_what_it_says_it_speaks_is_asked_once_more_and_no_more(times: int) -> None:
    refused = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "2026-07-28"}}
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete", "ttlMs": 0}

    async def discover(got: Got, write: Write) -> None:
        if len(raw.requests_of("server/discover")) <= times:
            await write(reply(json.dumps({"jsonrpc": "2.0", "id": got.body["id"], "error": refused}).encode(), 400))
        else:
            await write(reply(result(got, {**discovered, "cacheScope": "private"})))

    raw = Raw({"server/discover": discover})

    async def test() -> None:
        async with serving(raw):
            with nullcontext() if times == 1 else pytest.raises(RemoteJSONRPCError, match="no"):
                async with v2026_07_28.Client.http(raw.url):
                    pass
        assert len(raw.requests_of("server/discover")) == 2

    run(test())


def test_an_older_server_may_not_send_us_to_another_origin() -> None:
    async def test() -> None:
        raw = Raw({"initialize": always(reply(b"", 405))})
        raw.answers["GET"] = always(STREAM + encode(b"http://evil.invalid/messages", kind="endpoint"))
        with pytest.raises(HTTPStatusError, match="status 405"):
            await call(raw)

    run(test())


@pytest.mark.transport_rule("2025-11-25/08")
def test_no_secret_reaches_a_log_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        raw = Raw({"tools/call": always(reply(b"", 403))}, session="secret-session")
        with pytest.raises(HTTPStatusError) as caught:
            await call(raw, http=HTTPOptions(headers={"Authorization": "Bearer secret-token"}))
        assert "secret" not in str(caught.value)
        assert raw.requests_of("tools/call")[0].headers["authorization"] == "Bearer secret-token"

    with caplog.at_level(logging.DEBUG, "mcp_runtime"):
        run(test())
    assert "secret" not in "".join(
        record.getMessage() for record in caplog.records if record.name.startswith("mcp_runtime.")
    )


@pytest.mark.transport_rule("2026-07-28/18")
def test_a_stateless_call_is_cancelled_by_closing_its_stream_and_by_nothing_else() -> None:
    async def test() -> None:
        clock, started, ended = LoopClock(), asyncio.Event(), asyncio.Event()

        async def wait(got: Got, write: Write) -> None:
            started.set()
            try:
                await write(STREAM)
                while True:
                    await write(KEEP_ALIVE_COMMENT)
                    await asyncio.sleep(0.01)
            finally:
                ended.set()

        raw = Raw({"server/discover": discover, "tools/call": wait})
        async with serving(raw), v2026_07_28.Client.http(raw.url) as client:
            slow = asyncio.create_task(client.call_tool(name="x", options=RequestOptions(timeout=5)))
            await started.wait()
            clock.forward(5)
            with pytest.raises(RequestTimeoutError):
                await slow
            await ended.wait()
        assert [got.rpc for got in raw.seen] == ["server/discover", "tools/call"]

    run(test())


@pytest.mark.transport_rule("2026-07-28/29")
def test_a_call_refused_for_its_headers_is_sent_again_after_the_tools_are_listed_again() -> None:
    async def tools(got: Got, write: Write) -> None:
        mirrored = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
        wrong = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
        listed = [{"name": "x", "inputSchema": mirrored}, {"name": "wrong", "inputSchema": wrong}]
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await write(reply(result(got, {"tools": listed, **more})))

    async def check(got: Got, write: Write) -> None:
        if got.headers.get("mcp-param-a") == got.body["params"]["arguments"]["a"]:
            await write(reply(result(got, {**text_result("fine"), "resultType": "complete"})))
            return
        error = {"code": -32020, "message": "Header mismatch"}
        await write(reply(json.dumps({"jsonrpc": "2.0", "id": got.body["id"], "error": error}).encode(), 400))

    async def test() -> None:
        raw = Raw({"server/discover": discover, "tools/list": tools, "tools/call": check})
        async with serving(raw), v2026_07_28.Client.http(raw.url) as client:
            assert text(await client.call_tool(name="x", arguments={"a": "v"})) == "fine"
            assert text(await client.call_tool(name="x", arguments={"a": "w"})) == "fine"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["x"]
        calls = ["tools/call", "tools/list", "tools/call", "tools/call", "tools/list"]
        assert [got.rpc for got in raw.seen] == ["server/discover", *calls]

    run(test())


def test_a_client_is_closed_from_another_task_while_a_call_waits() -> None:
    async def test() -> None:
        arrived = asyncio.Event()

        async def wait(got: Got, write: Write) -> None:
            arrived.set()
            await asyncio.sleep(20)

        raw = Raw({"tools/call": wait})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            call = asyncio.create_task(client.call_tool(name="x"))
            await arrived.wait()
            await asyncio.gather(asyncio.create_task(client.close()), asyncio.create_task(client.close()))
            with pytest.raises(ConnectionClosedError):
                await call
        assert len(raw.requests_of("DELETE")) == 1

    run(test())


@pytest.mark.transport_rule("2026-07-28/36")
def test_the_calls_of_an_older_server_fail_when_its_stream_ends() -> None:
    async def test() -> None:
        say: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def stream(got: Got, write: Write) -> None:
            await write(STREAM + encode(b"/messages?session=1", kind="endpoint"))
            while (message := await say.get()) is not None:
                await write(encode(message))

        async def opened(got: Got, write: Write) -> None:
            if got.path == "/mcp":
                await write(reply(b"", 405))
                return
            await write(reply(b"", 202))
            initialized = {"protocolVersion": NEWEST_WITH_SESSIONS, "capabilities": {"tools": {}}}
            say.put_nowait(result(got, {**initialized, "serverInfo": {"name": "raw", "version": "1"}}))

        async def end(got: Got, write: Write) -> None:
            await write(reply(b"", 202))
            say.put_nowait(None)

        raw = Raw({"GET": stream, "initialize": opened, "tools/call": end})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            with pytest.raises(ConnectionClosedError):
                await client.call_tool(name="x", options=RequestOptions(timeout=None))
            with pytest.raises(ConnectionClosedError):
                await client.call_tool(name="x")
        assert raw.requests_of("tools/call")[0].path == "/messages?session=1"

    run(test())
