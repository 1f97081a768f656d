"""Clients that open sessions and do nothing lock no other client out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clock import LoopClock
from support.endpoints import HANDSHAKE, Rev, among
from support.http.asgi_client import Answer, Web

from mcp_generated import App
from mcp_generated.http import HTTPLimits

REV = HANDSHAKE[-1]


def endpoint(**limits: Any) -> Any:
    app = App("crowded")
    return app.asgi(owner=lambda scope: scope["state"].get("name"), limits=HTTPLimits(**limits))


def client(app: Any, address: str, name: str | None = None, rev: Rev = REV) -> Web:
    async def addressed(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": (address, 50_000), "state": {"name": name}}, receive, send)

    return Web(addressed, rev)


async def initialize(web: Web) -> Answer:
    """Send `initialize` alone."""
    hello = {"protocolVersion": web.rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    answer = await web.answered(body=web.rev.request(0, "initialize", hello))
    web.session = answer.headers.get("mcp-session-id")
    return answer


async def ping(web: Web) -> int:
    return (await web.answered(body=web.rev.request(1, "ping"))).status


@among(HANDSHAKE[1:])
async def test_half_open_sessions_make_room_for_others_the_oldest_first(rev: Rev) -> None:
    app = endpoint(max_sessions=5)
    user = client(app, "192.0.2.1", rev=rev)
    await user.open()
    half_open = [client(app, "192.0.2.2", rev=rev) for _ in range(20)]
    for web in half_open:
        assert (await initialize(web)).status == 200
    other = client(app, "192.0.2.3", rev=rev)
    assert (await other.open()).status == 200
    assert [await ping(web) for web in (user, other, *half_open[-3:])] == [200] * 5
    assert [await ping(web) for web in half_open[:-3]] == [404] * 17
    await app.close()


async def test_half_open_sessions_end_after_the_time_for_the_handshake_and_others_live_on() -> None:
    clock = LoopClock()
    app = endpoint(handshake_timeout=3, session_idle_timeout=1000)
    user, idle = client(app, "192.0.2.1"), client(app, "192.0.2.2")
    await user.open()
    await initialize(idle)
    clock.forward(2.9)
    await asyncio.sleep(0)
    assert app.session_count == 2
    late = client(app, "192.0.2.2")
    await initialize(late)
    clock.forward(0.2)
    async with asyncio.timeout(10):
        while app.session_count == 3:
            await asyncio.sleep(0)
    assert [await ping(web) for web in (user, idle, late)] == [200, 404, 200]
    clock.forward(6)
    await asyncio.sleep(0)
    assert [await ping(web) for web in (user, late)] == [200, 200]
    await app.close()


@pytest.mark.parametrize("by", ["address", "network", "user"])
async def test_whoever_has_the_most_sessions_loses_one_to_another_client(by: str) -> None:
    app = endpoint(max_sessions=6)

    def greedy(number: int) -> Web:
        match by:
            case "address":
                return client(app, "192.0.2.2")
            case "network":
                return client(app, f"2001:db8::{number}")
        return client(app, f"192.0.2.{number}", "greedy")

    sessions = [greedy(number) for number in range(6)]
    for web in sessions:
        assert (await web.open()).status == 200
    assert (await initialize(greedy(7))).status == 503
    others = [client(app, f"198.51.100.{number}", f"user {number}") for number in range(4)]
    for other in others:
        assert (await other.open()).status == 200
    assert [await ping(web) for web in others] == [200] * 4
    assert sorted([await ping(web) for web in sessions]) == [200, 200, 404, 404, 404, 404]
    await app.close()


async def test_a_session_whose_stream_is_open_is_not_taken_away() -> None:
    app = endpoint(max_sessions=3)
    sessions = [client(app, "192.0.2.2") for _ in range(3)]
    streams = []
    for web in sessions:
        await web.open()
        streams.append(web.request("GET", headers={"accept": "text/event-stream"}))
        await streams[-1].until(lambda answer: answer.status == 200)
    assert (await initialize(client(app, "192.0.2.3"))).status == 503
    for stream in streams:
        await stream.leave()
    assert (await initialize(client(app, "192.0.2.3"))).status == 200
    await app.close()
