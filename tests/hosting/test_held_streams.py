"""A stream that waits has a small object instead of a request with a task, and its client notices nothing of it."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from typing import Any

import pytest
from support.other_servers.held_streams import Listening, ping, settled, until
from support.other_servers.recorded_connections import unchunked
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mcp_products import fast as fast_paths
from mcp_products.hosting import held_responses as work_in_turn
from mcp_runtime.http.asgi import PartedResponse
from mcp_runtime.session.interfaces import RequestAuth
from mcp_runtime.transports.http_server.streams import SSEStream

KINDS = ("uvicorn", "ours")
HELD = pytest.mark.skipif(not fast_paths.ENABLED, reason="uvicorn has a task for each request")
CHANGED = b"notifications/tools/list_changed"


async def everything(kind: str, lines: tuple[str, ...]) -> tuple[bytes, bytes, bytes, bool]:
    """Return what a client gets: the stream's head and body, what follows on the connection, and whether it closes."""
    async with Listening(kind, lines=lines) as listening:
        for _ in range(3):
            await listening.change()
        await listening.end_session()
        stream, end, _ = listening.transport.written.partition(b"0\r\n\r\n")
        before = len(stream + end)
        other = await listening.open()
        if not listening.transport.closed:
            listening.connection.data_received(ping(7, other))
            await until(lambda: listening.state.total_requests == 2)
        listening.leave(listening.connection, listening.transport)
    start, body = unchunked(stream + end)
    return start, re.sub(rb"id: \S+-", b"id: ", body), listening.transport.written[before:], listening.transport.closed


@pytest.mark.parametrize("lines", [(), ("connection: close",), ("expect: 100-continue",)])
async def test_a_client_gets_of_a_held_stream_what_it_gets_of_uvicorn(lines: tuple[str, ...]) -> None:
    expected, got = [await everything(kind, lines) for kind in KINDS]
    assert got == expected and expected[1].count(CHANGED) == 3
    assert bool(expected[2]) == (lines != ("connection: close",))


@pytest.mark.long
@HELD
async def test_a_stream_that_waits_has_neither_a_task_nor_a_request() -> None:
    def requests() -> int:
        gc.collect()
        return sum(isinstance(item, RequestResponseCycle) for item in gc.get_objects())

    before = requests()
    async with Listening() as listening:
        assert not listening.state.tasks and requests() == before
        tasks, first = len(asyncio.all_tasks()), (listening.connection, listening.transport)
        listening.reconnect()
        listening.session = await listening.open()
        await listening.listen()
        assert len(asyncio.all_tasks()) == tasks
        for _ in range(3):
            await listening.change()
            assert not listening.state.tasks and requests() == before
        for connection, transport in (first, (listening.connection, listening.transport)):
            assert transport.written.count(CHANGED) == 3
            listening.leave(connection, transport)


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_of_one_moment_go_out_together(kind: str) -> None:
    async with Listening(kind) as listening:
        before = len(listening.transport.writes)
        for _ in range(3):
            await listening.app.server.notify_tool_list_changed()
        await settled()
        assert listening.transport.written.count(CHANGED) == 3
        if kind == "ours":
            assert len(listening.transport.writes) <= before + 2
        listening.leave(listening.connection, listening.transport)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_comment_is_sent_when_nothing_else_is(kind: str) -> None:
    async with Listening(kind, keep_alive=0.01) as listening:
        await until(lambda: listening.transport.written.count(b": ") > 10)
        await listening.change()
        written = listening.transport.written
        assert CHANGED in written and listening.asgi._keep_alive.waiting_count == 1
        listening.leave(listening.connection, listening.transport)
        await until(lambda: not listening.asgi._keep_alive.waiting_count)


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_written_while_the_client_does_not_read(kind: str) -> None:
    async with Listening(kind) as listening:
        listening.connection.pause_writing()
        before = len(listening.transport.writes)
        for _ in range(3):
            await listening.change()
        assert len(listening.transport.writes) == before
        listening.connection.resume_writing()
        await settled()
        assert listening.transport.written.count(CHANGED) == 3
        listening.leave(listening.connection, listening.transport)
        await until(lambda: not listening.state.tasks)


@pytest.mark.parametrize(
    ("kind", "is_paused"),
    [("uvicorn", False), ("ours", False), pytest.param("ours", True, marks=HELD)],  # uvicorn drops what waits.
)
async def test_what_a_lost_client_has_not_got_is_sent_to_its_next_stream(kind: str, is_paused: bool) -> None:
    async with Listening(kind) as listening:
        if is_paused:
            listening.connection.pause_writing()
            await listening.change()
        listening.leave(listening.connection, listening.transport)
        await settled()
        assert not listening.state.tasks and not listening.asgi._keep_alive.waiting_count
        await listening.change()
        assert CHANGED not in listening.transport.written
        listening.reconnect()
        await listening.listen()
        assert listening.transport.written.count(CHANGED) == 1 + is_paused
        listening.leave(listening.connection, listening.transport)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_behind_the_stream_is_served_after_it(kind: str) -> None:
    async with Listening(kind) as listening:
        other = await listening.open()
        for byte in ping(7, other):
            listening.connection.data_received(bytes([byte]))
        listening.connection.data_received(ping(8, other))
        await listening.change()
        assert b'"id":7' not in listening.transport.written and listening.transport.written.count(CHANGED) == 1
        await listening.end_session()
        await until(lambda: listening.state.total_requests == 3)
        stream, end, rest = listening.transport.written.partition(b"0\r\n\r\n")
        assert CHANGED in stream and end
        assert re.findall(rb'"id":(\d)', rest) == [b"7", b"8"]
        listening.leave(listening.connection, listening.transport)


@HELD
async def test_a_client_that_goes_with_a_request_behind_its_stream_is_noticed() -> None:
    async with Listening() as listening:
        listening.connection.data_received(ping(7, listening.session))
        listening.leave(listening.connection, listening.transport)
        await until(lambda: not listening.state.tasks and not listening.asgi._keep_alive.waiting_count)
        before = len(listening.transport.writes)
        await listening.change()
        assert len(listening.transport.writes) == before


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_ends_closes_the_connection_with_the_stream(kind: str) -> None:
    async with Listening(kind) as listening:
        listening.connection.shutdown()
        assert not listening.transport.closed
        await listening.asgi.close()
        await until(lambda: listening.transport.closed)
        assert listening.transport.written.endswith(b"0\r\n\r\n")
        listening.connection.connection_lost(None)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_access_log_has_a_line_for_a_stream(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "uvicorn.access")
    async with Listening(kind, log_config=None, log_level="info") as listening:
        await listening.change()
        assert listening.transport.written.count(CHANGED) == 1
        listening.leave(listening.connection, listening.transport)
    assert len([line for line in caplog.records if "GET" in line.getMessage()]) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_that_fails_closes_its_connection_and_tells_why(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*arguments: Any) -> int | None:
        raise RuntimeError("on purpose")

    async with Listening(kind, log_config=None) as listening:
        monkeypatch.setattr(SSEStream, "_send_from", fail)
        await listening.change()
        await until(lambda: listening.transport.closed and not listening.state.tasks)
        assert not listening.transport.written.endswith(b"0\r\n\r\n")
        assert not listening.asgi._keep_alive.waiting_count
        listening.connection.connection_lost(None)
    assert any(line.exc_info and "on purpose" in str(line.exc_info[1]) for line in caplog.records)


@HELD
async def test_an_application_that_wraps_send_has_a_task_for_the_stream() -> None:
    """What such an application does with each part goes on."""
    async with Listening() as listening:
        inner, seen = listening.config.loaded_app, list[str]()

        async def wrapped(scope: Any, receive: Any, send: Any) -> None:
            async def noting(message: Any) -> None:
                seen.append(message["type"])
                await send(message)

            await inner(scope, receive, noting)
            seen.append("ended")

        listening.config.loaded_app = wrapped
        listening.leave(listening.connection, listening.transport)
        listening.reconnect()
        await listening.listen()
        await listening.change()
        assert listening.state.tasks and seen == ["http.response.start", *["http.response.body"] * 2]
        await listening.end_session()
        assert seen.pop() == "ended"
        listening.leave(listening.connection, listening.transport)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_ends_with_the_token_of_its_request(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestAuth, "expires_in", property(lambda _: 0.05))
    async with Listening(kind) as listening:
        await until(lambda: listening.state.total_requests == 1)
        assert listening.transport.written.endswith(b"0\r\n\r\n") and not listening.transport.closed
        await until(lambda: not listening.state.tasks)
        assert not listening.asgi._keep_alive.waiting_count
        listening.leave(listening.connection, listening.transport)


@HELD
async def test_not_all_streams_of_a_server_send_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some that wait for a store keep the others waiting for a moment only."""
    monkeypatch.setattr(work_in_turn, "_AT_ONCE", 2)
    sending, go_on, send_from = list[SSEStream](), asyncio.Event(), SSEStream._send_from

    async def wait(self: SSEStream, connection: object, response: PartedResponse, cursor: int) -> int:
        sending.append(self)
        await go_on.wait()
        return await send_from(self, connection, response, cursor)

    async with Listening() as listening:
        connections = [(listening.connection, listening.transport)]
        for _ in range(4):
            listening.reconnect()
            listening.session = await listening.open()
            await listening.listen()
            connections.append((listening.connection, listening.transport))
        monkeypatch.setattr(SSEStream, "_send_from", wait)
        await listening.change()
        assert len(sending) == 2
        await until(lambda: len(sending) == 5)
        go_on.set()
        await until(lambda: all(CHANGED in transport.written for _, transport in connections))
        for connection, transport in connections:
            listening.leave(connection, transport)


async def test_a_response_whose_head_is_not_sent_is_not_held() -> None:
    async def send(message: Any) -> None: ...

    class Client:
        def on_disconnect(self) -> None: ...

    assert PartedResponse(send, ()).hold(Client()) is None
