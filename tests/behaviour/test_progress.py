"""Progress of a call: it comes with the token of the call, grows, ends with the call, and may give it more time."""

from __future__ import annotations

import asyncio
from typing import Any

from behaviour.support import EVERY, HANDSHAKE, Rev, Tap, among, clause, client_of, raw_server, server_of

from mcp_runtime.faces.calls import Options


def told(token: Any, progress: float) -> dict[str, Any]:
    params = {"progressToken": token, "progress": progress}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def steps(rev: Rev, *values: float) -> Any:
    """A server whose tool reports these values."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        for value in values:
            await ctx.progress(value, 3, f"step {value}")
        return rev.text("done")

    return server_of(rev, call_tool=call_tool)


@clause("2024-11-05/progress/04", "2025-03-26/progress/05", "draft/progress/05")
@among(EVERY)
async def test_nothing_is_reported_to_who_did_not_ask_for_it(rev: Rev) -> None:
    tap = Tap(steps(rev, 1, 2))
    async with client_of(rev, tap) as client:
        await client.call_tool(name="x")
    assert not [message for message in tap.received if "method" in message]


async def calling(rev: Rev, options: Options) -> tuple[Any, Any, asyncio.Task[Any], Any]:
    """A raw server, a client with an open call of it, the call, and the request as it came."""
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    task = asyncio.create_task(client.call_tool(name="x", options=options))
    return wire, client, task, await wire.receive()


@among(HANDSHAKE)
async def test_progress_that_does_not_grow_is_dropped(rev: Rev) -> None:
    seen: list[float] = []
    wire, client, task, asked = await calling(rev, Options(on_progress=lambda p: seen.append(p.progress)))
    token = asked["params"]["_meta"]["progressToken"]
    wire.send(*(told(token, value) for value in (1, 1, 0.5, 2, -3, 2.5)))
    wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}})
    await task
    assert seen == [1, 2, 2.5]
    await client.close()


@among(HANDSHAKE)
async def test_the_client_reports_progress_of_what_the_server_asks(rev: Rev) -> None:
    seen: list[float] = []

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        await ctx.progress(0.5)
        return rev.t.ListRootsResult(roots=[])

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.list_roots(options=Options(on_progress=lambda progress: seen.append(progress.progress)))
        return rev.text("done")

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        await client.call_tool(name="x")
    assert seen == [0.5]
