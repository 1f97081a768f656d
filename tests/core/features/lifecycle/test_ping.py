"""Whether the other side is still there: asked by either side, answered at once, also by the runtime now and then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    HANDSHAKE,
    METHOD_NOT_FOUND,
    STATELESS,
    Rev,
    among,
    clause,
    client_of,
    hello,
    raw_server,
    server_of,
    wire_to,
)

from mcp_runtime.errors import ConnectionClosedError


@clause("2024-11-05/basic/02", "2025-03-26/basic/01", "draft/basic/01")
@among(HANDSHAKE)
async def test_both_sides_answer_with_an_empty_result_also_without_any_feature(rev: Rev) -> None:
    async def on_initialized(ctx: Any, params: Any) -> None:
        answers.put_nowait(await ctx.ping())

    answers: asyncio.Queue[Any] = asyncio.Queue()
    async with client_of(rev, server_of(rev, on_initialized=on_initialized)) as client:
        assert await client.ping() == rev.t.EmptyResult()
        assert await asyncio.wait_for(answers.get(), 10) == rev.t.EmptyResult()


@clause("2024-11-05/ping/01", "2025-03-26/ping/01", "draft/ping/01")
@among(HANDSHAKE)
async def test_a_ping_is_answered_before_the_handshake_and_during_it(rev: Rev) -> None:
    async with wire_to(server_of(rev)) as wire:
        assert (await wire.request(rev.request(1, "ping")))["result"] == {}
        await wire.request(hello(rev.id))
        assert (await wire.request(rev.request(2, "ping")))["result"] == {}


@clause("2024-11-05/ping/01", "2025-03-26/ping/01", "draft/ping/01")
@among(HANDSHAKE)
async def test_a_ping_is_answered_while_handlers_are_at_work(rev: Rev) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        started.set()
        await release.wait()
        return rev.text("done")

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(rev.request(1, "tools/call", {"name": "x"}))
        await started.wait()
        assert await wire.request(rev.request(2, "ping")) == {"jsonrpc": "2.0", "id": 2, "result": {}}
        release.set()
        assert (await wire.receive())["id"] == 1


@clause("2024-11-05/ping/02", "2025-03-26/ping/02", "draft/ping/02")
@clause("2024-11-05/ping/03", "2025-03-26/ping/03", "draft/ping/03")
@among(HANDSHAKE)
async def test_a_client_that_keeps_alive_asks_again_and_again(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, ping_interval=0.2).__aenter__())
    await wire.welcome(rev)
    client = await opening
    for _ in range(3):
        request = await wire.receive()
        assert request["method"] == "ping"
        wire.send({"jsonrpc": "2.0", "id": request["id"], "result": {}})
    await client.close()


@clause("2024-11-05/ping/06", "2025-03-26/ping/06", "draft/ping/06")
@among(HANDSHAKE)
async def test_a_server_that_no_longer_answers_is_a_connection_that_ended(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, ping_interval=0.02).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    with pytest.raises(ConnectionClosedError):
        await client.call_tool(name="never answered")
    with pytest.raises(ConnectionClosedError):
        await client.ping()
    await client.close()


@among(STATELESS)
async def test_without_sessions_there_is_no_ping(rev: Rev) -> None:
    assert not hasattr(rev.package.Client, "ping") and not hasattr(rev.package.Context, "ping")
    assert not hasattr(rev.t, "PingRequest")
    async with wire_to(server_of(rev)) as wire:
        assert (await wire.request(rev.request(1, "ping")))["error"]["code"] == METHOD_NOT_FOUND
