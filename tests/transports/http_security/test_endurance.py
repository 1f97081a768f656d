"""Clients that are slow, many or gone, and a server that is told to end while it is at work."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest
from support.http.raw_client import (
    STATELESS_REVISION,
    PARSERS,
    SESSIONS,
    Socket,
    RawClient,
    address,
    call,
    ended,
    entered,
    launched,
    opened,
    posted,
    request,
)

SLOW = 200  # Of each kind.
LARGE = 300_000  # Bytes of an answer: more than a connection holds for who does not read.
parsers = pytest.mark.parametrize("parser", PARSERS)


@pytest.mark.long
@parsers
@pytest.mark.parametrize("spoken", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.5/01")
async def test_slow_heads_bodies_and_readers_leave_a_healthy_client_alone(
    parser: str, spoken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = address(parser)
    way = await entered(where, spoken)
    whole, large = way.bytes(call(1, "echo", text="x" * 1000)), way.bytes(call("large", "echo", text="x" * LARGE))
    slow = [await Socket.to(where) for _ in range(3 * SLOW)]
    for number, each in enumerate(slow):
        each.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await each.write([whole[:30], whole[:-500], large][number % 3])
    await way.until()  # What the last of them has asked for is written down by now.
    taken: list[float] = []
    for number in range(200):
        begun = time.perf_counter()
        assert await way.call(number, "echo", text="quick") == "quick"
        taken.append(time.perf_counter() - begun)
    with capsys.disabled():
        print(f"\n{parser}, {spoken}: p99 of a healthy client {statistics.quantiles(taken, n=100)[98] * 1000:.1f} ms")
    # A body that does not come in time is given up; this server waits for two seconds.
    slow[1].writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert (await slow[1].answer()).status == 408
    for each in slow:
        each.cut()
    assert await way.call("after", "echo", text="well") == "well"


@parsers
@pytest.mark.fault("1.4/10", "1.5/09")
async def test_the_server_ends_in_time_with_streams_and_calls_open(parser: str) -> None:
    server, where = launched(parser)
    session, alone = await opened(where), RawClient(where, None)
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
    assert status in (0, -15) and time.monotonic() - begun < 20.0  # Two seconds, on an idle machine.
    print(f"{parser}: ended after {time.monotonic() - begun:.2f} s")
    (last,) = await sockets["listening"].messages(1)
    assert last["id"] == "sub" and "result" in last
    assert (await sockets["call"].answer()).status == 404
    assert (await sockets["alone"].answer()).status == 503
    for each in sockets.values():
        each.cut()
