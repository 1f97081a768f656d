"""Clients that are slow, many or gone, and a server that is told to end while it is at work."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest
from support.http.raw_client import (
    ENDPOINTS,
    PARSERS,
    SESSIONS,
    STATELESS_REVISION,
    RawClient,
    Socket,
    address,
    call,
    ended,
    entered,
    launched,
    opened,
    posted,
    request,
)
from support.matrices import long_after

SLOW = 200  # Of each kind.
LARGE = 300_000  # Bytes of an answer: more than a connection holds for who does not read.
endpoints = pytest.mark.parametrize("endpoint", long_after(len(PARSERS), ENDPOINTS))


@pytest.mark.long
@endpoints
@pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.5/01")
async def test_slow_heads_bodies_and_readers_leave_a_healthy_client_alone(
    endpoint: str, protocol_version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = address(endpoint)
    client = await entered(where, protocol_version)
    whole, large = client.bytes(call(1, "echo", text="x" * 1000)), client.bytes(call("large", "echo", text="x" * LARGE))
    slow = [await Socket.to(where) for _ in range(3 * SLOW)]
    for number, connection in enumerate(slow):
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await connection.write([whole[:30], whole[:-500], large][number % 3])
    await client.until()  # What the last of them has asked for is written down by now.
    durations: list[float] = []
    for number in range(200):
        started = time.perf_counter()
        assert await client.call(number, "echo", text="quick") == "quick"
        durations.append(time.perf_counter() - started)
    with capsys.disabled():
        p99 = statistics.quantiles(durations, n=100)[98]
        print(f"\n{endpoint}, {protocol_version}: p99 of a healthy client {p99 * 1000:.1f} ms")
    # A body that does not come in time is given up; this server waits for two seconds.
    slow[1].writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert (await slow[1].answer()).status == 408
    for connection in slow:
        connection.cut()
    assert await client.call("after", "echo", text="well") == "well"


@pytest.mark.edges
@pytest.mark.long
@endpoints
@pytest.mark.fault("1.4/10", "1.5/09")
async def test_the_server_ends_in_time_with_streams_and_calls_open(endpoint: str) -> None:
    server, where = launched(endpoint)
    session, stateless = await opened(where), RawClient(where, None)
    listen = request("sub", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    requests = {
        "standing": session.bytes(b"", "GET"),
        "call": session.bytes(call(1, "wait")),
        "stream": session.bytes(call(2, "wait"), accept="text/event-stream"),
        "alone": stateless.bytes(call(3, "wait")),
        "listening": stateless.bytes(listen),
        "older": posted(where, b"", {":path": "/sse", "accept": "text/event-stream"}, "GET"),
        "half": session.bytes(call(4, "echo"))[:-10],
    }
    sockets = {name: await Socket.to(where) for name in requests}
    for name, data in requests.items():
        await sockets[name].write(data)
    if endpoint == "bridge":  # It has a connection of its own for those without sessions: to a process of its own.
        await session.until(waiting=2)
        await stateless.until(waiting=1)
    else:
        await session.until(waiting=3)
    assert (await sockets["listening"].head())[0] == 200 and await sockets["listening"].messages(1)
    started = time.monotonic()
    status = await asyncio.to_thread(ended, server.process)
    assert status in (0, -15) and time.monotonic() - started < 20.0  # Two seconds, on an idle machine.
    print(f"{endpoint}: ended after {time.monotonic() - started:.2f} s")
    (last,) = await sockets["listening"].messages(1)
    assert last["id"] == "sub" and "result" in last
    assert (await sockets["call"].answer()).status == 404
    assert (await sockets["alone"].answer()).status == 503
    for connection in sockets.values():
        connection.cut()
