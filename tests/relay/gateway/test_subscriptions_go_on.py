"""Subscriptions to resources go on when a server begins anew, and when a reload replaces its connections."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among
from support.http.sockets import listening

from mcp_generated import App, Context, Gateway, RemoteError, connect

PROGRAM = """
import os, sys
from mcp_generated import App, Context

app = App("notes")

@app.tool
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated("note://one")
    return str(os.getpid())

@app.tool
def end() -> str:
    os._exit(3)

@app.resource("note://one")
def one() -> str:
    return "a note"

app.run(revisions=[sys.argv[1]])
"""
URI = "note://notes/one"


@asynccontextmanager
async def served(up: str) -> AsyncGenerator[tuple[Gateway, dict[str, Any], str]]:
    """Serve a gateway before a process of one version."""
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd()))}
    table: dict[str, Any] = {"command": sys.executable, "args": ["-c", PROGRAM, up], "env": environment}
    gateway = Gateway({"upstreams": {"notes": table}})
    async with listening(gateway.app.asgi()) as port:
        yield gateway, table, f"http://127.0.0.1:{port}/mcp"


@pytest.mark.long
@pytest.mark.parametrize("up", ["2025-11-25", "2026-07-28"])
@among(HANDSHAKE[1:])
async def test_a_session_hears_of_changes_after_the_server_has_ended_and_after_a_reload(rev: Rev, up: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    class Listener(rev.package.Client):  # type: ignore[misc]
        async def on_resource_updated(self, ctx: Any, params: Any) -> None:
            heard.put_nowait(params.uri)

    async def touched() -> str:
        while not heard.empty():
            heard.get_nowait()
        pid: str = (await client.call_tool(name="notes_touch", arguments={})).content[0].text
        assert await heard.get() == URI
        return pid

    async with served(up) as (gateway, table, url), Listener.http(url) as client:
        await client.subscribe(uri=URI)
        first = await touched()
        with pytest.raises(RemoteError, match="exit code 3"):
            await client.call_tool(name="notes_end", arguments={})
        assert await heard.get() == URI, "it may have changed meanwhile"
        second = await touched()
        table["idle"] = 300
        while not heard.empty():
            heard.get_nowait()
        gateway.reload()
        assert await heard.get() == URI, "it may have changed meanwhile"
        assert len({first, second, await touched()}) == 3
        await client.unsubscribe(uri=URI)
        table["resources"] = False
        gateway.reload()
        await client.call_tool(name="notes_touch", arguments={})
        await client.list_tools()
        assert heard.empty()


@pytest.mark.parametrize("up", ["2025-11-25", "2026-07-28"])
async def test_a_client_without_a_session_hears_of_changes_after_a_reload(up: str) -> None:
    app = App("notes")

    @app.tool
    async def touch(ctx: Context) -> None:
        await ctx.notify_resource_updated("note://one")

    @app.resource("note://one")
    def one() -> str:
        return "a note"

    async with listening(app.asgi(revisions=[up])) as port:
        table: dict[str, Any] = {"url": f"http://127.0.0.1:{port}/mcp"}
        gateway = Gateway({"upstreams": {"notes": table}})
        async with connect(gateway.app) as client, client.listen(resource_updated=[URI]) as changes:
            await client.call_tool("notes_touch")
            assert (await anext(changes)).method == "notifications/resources/updated"
            table["idle"] = 300
            gateway.reload()
            for _ in range(3):  # The first one says that it may have changed.
                await client.call_tool("notes_touch")
                assert (await anext(changes)).method == "notifications/resources/updated"
