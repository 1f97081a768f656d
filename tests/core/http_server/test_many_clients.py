"""Many clients, slow ones, and big answers: nobody pays for another, and what they took is given back."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from support.clock import LoopClock
from support.endpoints import HANDSHAKE, STATELESS, Rev, among, server_of, since
from support.http.asgi_client import Web
from support.http.sockets import Proxy, listening, proxied

from mcp_runtime.errors import ConnectionClosedError
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.session.session import Session
from mcp_runtime.transports.http_server.app import HTTPLimits
from mcp_runtime.transports.http_server.events import InMemoryEventStore
from mcp_runtime.transports.http_server.sessions import HTTPSession
from mcp_runtime.transports.http_server.streams import SSEStream

IDLE = 60.0
MUCH = "€" * (1024 * 1024)  # 3 MiB as UTF-8.


def echo(rev: Rev) -> Any:
    """A server whose tool gives back a text, after a word on its way where it is asked for progress."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        return rev.text((params.arguments or {}).get("text", params.name))

    return server_of(rev, call_tool=call_tool)


def call(rev: Rev, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": "echo", "arguments": arguments})


def alive() -> int:
    gc.collect()
    return sum(isinstance(item, (HTTPSession, Session, SSEStream)) for item in gc.get_objects())


@pytest.mark.long
@pytest.mark.deadline(600)  # By a clock that is put forward.
@pytest.mark.clause("2025-03-26/transports/37", "draft/transports/37")
async def test_sessions_that_nobody_comes_back_to_are_given_back_with_their_memory() -> None:
    rev = HANDSHAKE[-1]
    events = InMemoryEventStore()
    server = server_of(rev, call_tool=echo(rev).call_tool, capabilities={"tools": {"listChanged": True}})
    app = server.asgi(limits=HTTPLimits(session_idle_timeout=IDLE), event_store=events)
    clock = LoopClock()

    async def abandoned(number: int) -> None:
        client = Web(app, rev)
        assert (await client.open()).status == 200
        if number % 4 == 0:
            body = rev.request(1, "tools/call", {"name": "echo", "_meta": {"progressToken": "t"}})
            assert (await client.answered(body=body)).json_messages[-1]["id"] == 1

    async def crowd(many: int) -> None:
        for number in range(many):
            await abandoned(number)
        await server.notify_tool_list_changed()
        assert app.session_count == many
        clock.forward(IDLE)
        async with asyncio.timeout(20):
            while app.session_count:
                await asyncio.sleep(0.05)

    await crowd(20)  # What is made once is made.
    before = alive()
    tracemalloc.start()
    await crowd(1000)
    app._head_parser._cache.clear()  # Of the heads of requests a number is remembered, whoever made them.
    gc.collect()
    remaining, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"1,000 sessions: {peak / 1e6:.1f} MB at most, {remaining / 1e6:.2f} MB left")
    assert alive() <= before and not events._streams
    assert remaining < peak / 5
    await app.close()


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    rev = STATELESS[-1]
    async with listening(echo(rev).asgi(path="/mcp", limits=HTTPLimits(body_timeout=0.2))) as port:
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in connections:
            writer.write(
                b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
                b'content-length: 5000\r\n\r\n{"jsonrpc"' % port
            )
        for reader, writer in connections:
            assert (await reader.read(-1)).startswith(b"HTTP/1.1 408 ")
            writer.close()


@among(since("2025-03-26"))
async def test_a_connection_that_drops_harms_its_own_call_alone(rev: Rev) -> None:
    started, all_started, go = 0, asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        nonlocal started
        started += 1
        if started == 10:
            all_started.set()
        await go.wait()
        return rev.text(params.name)

    async with listening(server_of(rev, call_tool=call_tool).asgi(path="/mcp")) as port:
        proxy = Proxy(port)
        async with proxied(proxy) as url, rev.package.Client.http(url) as client:
            names = ["victim", *(f"healthy {number}" for number in range(9))]
            calls = [asyncio.create_task(client.call_tool(name=name)) for name in names]
            await all_started.wait()
            assert proxy.cut(b'"victim"') == 1
            with pytest.raises(ConnectionClosedError):
                await calls[0]
            go.set()
            assert [(await call).content[0].text for call in calls[1:]] == names[1:]
            assert (await client.call_tool(name="and on")).content[0].text == "and on"


@among(since("2025-03-26"))
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
async def test_three_mebibytes_pass_in_both_directions(rev: Rev, streamed: bool) -> None:
    async with listening(echo(rev).asgi(path="/mcp")) as port:
        updates: list[Any] = []
        options = RequestOptions(on_progress=updates.append) if streamed else None
        async with rev.package.Client.http(f"http://127.0.0.1:{port}/mcp") as client:
            result = await client.call_tool(name="echo", arguments={"text": MUCH}, options=options)
            assert result.content[0].text == MUCH and len(updates) == streamed


@pytest.mark.clause("2024-11-05/transports/08", "2024-11-05/transports/09", "2024-11-05/transports/11")
async def test_three_mebibytes_pass_over_the_older_pair() -> None:
    rev = HANDSHAKE[0]
    async with listening(echo(rev).asgi(path="/mcp", legacy_sse=True)) as port:
        async with rev.package.Client.http(f"http://127.0.0.1:{port}/sse") as client:
            result = await client.call_tool(name="echo", arguments={"text": MUCH})
            assert result.content[0].text == MUCH


async def held() -> Counter[str]:
    """The numbers of what waits, and of timers by what they call, once all is done that can be done now."""
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()
    kinds, loop = (asyncio.Future, asyncio.Event, asyncio.TimerHandle), asyncio.get_running_loop()
    objects: list[Any] = [item for item in gc.get_objects() if isinstance(item, kinds)]
    objects = [item for item in objects if item._loop in (loop, None)]  # Other tests have had loops of their own.
    objects = [item for item in objects if isinstance(item, asyncio.Event) or not item.cancelled()]
    return Counter(name_of(item) for item in objects)


def name_of(item: Any) -> str:
    name = type(item).__name__
    return f"timer of {item._callback.__qualname__}" if name == "TimerHandle" else name


@pytest.mark.long
async def test_an_idle_session_holds_no_task_no_timer_and_nothing_that_waits() -> None:
    rev = HANDSHAKE[-1]
    app = echo(rev).asgi()
    first = Web(app, rev)
    await first.open()
    before = await held()
    clients = [Web(app, rev) for _ in range(20)]
    for client in clients:
        await client.open()
        assert (await client.answered(body=call(rev, text="said"))).status == 200
    assert len({client.session for client in clients}) == len(clients)
    assert await held() - before == Counter()
    await app.close()


@pytest.mark.long
async def test_a_stream_that_is_open_holds_one_task_and_shares_its_timer() -> None:
    rev = HANDSHAKE[-1]
    app = echo(rev).asgi()
    clients = [Web(app, rev) for _ in range(20)]
    for client in clients:
        await client.open()
    before = await held()
    streams = [client.request("GET") for client in clients]
    for stream in streams:
        await stream.until(lambda answer: answer.events)
    after = await held()
    # The other one is the task in which a request is served, which is not ours.
    assert after["Task"] - before["Task"] == 2 * len(streams)
    timers = {name: count for name, count in (after - before).items() if name.startswith("timer")}
    assert timers == {"timer of KeepAliveTimer._on_timer": 1}
    for stream in streams:
        await stream.leave()
    del streams, stream
    assert (await held())["Task"] == before["Task"]
    await app.close()


@pytest.mark.long
@pytest.mark.parametrize(("length", "stored"), [(1, 63), (1024 * 1024, 15)])
async def test_answers_that_can_still_be_resumed_are_kept_for_a_session_within_limits(length: int, stored: int) -> None:
    rev = HANDSHAKE[-1]
    events = InMemoryEventStore()
    app = echo(rev).asgi(event_store=events)
    client = Web(app, rev)
    await client.open()
    named = {"name": "echo", "arguments": {"text": "x" * length}, "_meta": {"progressToken": "t"}}
    answers = [await client.answered(body=rev.request(n, "tools/call", named)) for n in range(80)]
    assert all(answer.json_messages[-1]["id"] == n for n, answer in enumerate(answers))
    later = await client.answered(body=rev.request(99, "tools/call", named))
    resumed = [await client.answered("GET", headers={"last-event-id": answer.events[0].id}) for answer in answers]
    assert [answer.status for answer in resumed] == [400] * (80 - stored) + [200] * stored
    assert resumed[-1].json_messages[-1] == answers[-1].json_messages[-1] and later.status == 200
    await app.close()
    assert not events._streams
