"""Clients that are slow, many or gone, and a server that is told to end while it is at work."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import tracemalloc
from typing import Any

import pytest
from behaviour.support import HANDSHAKE, server_of
from over_http.support import Web

from mcp_runtime.faces.asgi import Limits
from mcp_runtime.session import Session
from mcp_runtime.transports.http import streams
from mcp_runtime.transports.http.sessions import HttpSession

from .wire import (
    ALONE,
    PARSERS,
    SESSIONS,
    Socket,
    Way,
    address,
    call,
    ended,
    entered,
    launched,
    opened,
    posted,
    request,
)

SLOW = 200
READERS = 12
parsers = pytest.mark.parametrize("parser", PARSERS)


@parsers
@pytest.mark.parametrize("spoken", [SESSIONS, ALONE])
async def test_slow_heads_bodies_and_readers_leave_a_healthy_client_alone(
    parser: str, spoken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = address(parser)
    way = await entered(where, spoken)
    slow = [await Socket.to(where) for _ in range(SLOW)]
    whole = way.bytes(call(1, "echo", text="x" * 1000))
    for number, each in enumerate(slow):
        await each.write(whole[: 30 if number % 2 else -500])
    readers = [await Socket.to(where) for _ in range(READERS)]
    for number, each in enumerate(readers):
        each.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await each.write(way.bytes(call(f"r{number}", "big")))
    await way.until()  # Twelve times three mebibytes are written down first, which nobody is made to wait for again.
    taken: list[float] = []
    for number in range(200):
        begun = time.perf_counter()
        assert await way.call(number, "echo", text="quick") == "quick"
        taken.append(time.perf_counter() - begun)
    with capsys.disabled():
        print(f"\n{parser}, {spoken}: p99 of a healthy client {statistics.quantiles(taken, n=100)[98] * 1000:.1f} ms")
    # A body that does not come in time is given up; this server waits for two seconds.
    assert (await slow[0].answer()).status == 408
    for each in (*slow, *readers):
        each.cut()
    assert await way.call("after", "echo", text="well") == "well"


@parsers
async def test_the_server_ends_in_time_with_streams_and_calls_open(parser: str) -> None:
    server, where = launched(parser)
    session, alone = await opened(where), Way(where, None)
    listen = request("sub", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    asked = {
        "standing": session.bytes(b"", "GET"),
        "call": session.bytes(call(1, "wait")),
        "stream": session.bytes(call(2, "wait"), accept="text/event-stream"),
        "alone": alone.bytes(call(3, "wait")),
        "listening": alone.bytes(listen),
        "older": posted(where, b"", {":path": "/sse", "accept": "text/event-stream"}, "GET"),
        "half": session.bytes(call(4, "echo"))[:-10],
    }
    sockets = {name: await Socket.to(where) for name in asked}
    for name, data in asked.items():
        await sockets[name].write(data)
    await session.until(waiting=3)
    assert (await sockets["listening"].head())[0] == 200 and await sockets["listening"].messages(1)
    begun = time.monotonic()
    status = await asyncio.to_thread(ended, server.process)
    assert status in (0, -15) and time.monotonic() - begun < 6.0  # Two seconds, on a machine that has time.
    print(f"{parser}: ended after {time.monotonic() - begun:.2f} s")
    (last,) = await sockets["listening"].messages(1)
    assert last["id"] == "sub" and "result" in last
    assert (await sockets["call"].answer()).status == 404
    assert (await sockets["alone"].answer()).status == 503
    for each in sockets.values():
        each.cut()


@pytest.mark.clause("2025-03-26/transports/37", "draft/transports/37")
async def test_a_thousand_sessions_that_were_left_are_reclaimed() -> None:
    rev = HANDSHAKE[-1]
    app = server_of(rev, capabilities={"tools": {}}).asgi(limits=Limits(idle=0.2))

    async def leave_many(number: int) -> None:
        for _ in range(number):
            await Web(app, rev).open()
        async with asyncio.timeout(20):
            while len(app._sessions):
                await asyncio.sleep(0.01)
        gc.collect()

    await leave_many(10)  # What is made once and kept is made now.
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await leave_many(1000)
        app._heads._seen.clear()  # Heads of at most so many requests are remembered, whoever made them.
        gc.collect()
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"1,000 sessions left {(after - before) / 1000:.0f} bytes each behind, of {(most - before) / 1000:.0f}")
    assert not [each for each in gc.get_objects() if isinstance(each, (HttpSession, Session, streams.Stream))]
    assert after - before < (most - before) / 5
    await app.close()


async def test_openings_that_are_refused_keep_nothing() -> None:
    rev = HANDSHAKE[-1]
    app = server_of(rev).asgi(limits=Limits(sessions=5))
    for _ in range(50):
        bad = rev.request(1, "initialize", {"protocolVersion": 5})
        assert "error" in (await Web(app, rev).answered(body=bad)).json
    assert len(app._sessions) == 0
    await app.close()
