"""A low-level server over streams of messages: in trio as in asyncio, with what ends its requests."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcp_generated.compat import Server, types
from mcp_products.compat.streams.message import SessionMessage, create_client_server_memory_streams

pytest.importorskip("trio", reason="trio is not installed")

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}


async def ask(stream: Any, method: str, params: dict[str, Any], **id: int) -> None:
    raw = {"jsonrpc": "2.0", "method": method, "params": params, **id}
    await stream.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(raw)))


async def program(backend: str, seen: list[str]) -> None:
    library = importlib.import_module(backend)

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncGenerator[str]:
        async with anyio.create_task_group():  # It begins and ends in one task.
            seen.append("started")
            yield "state"
            await anyio.lowlevel.checkpoint()
            seen.append("ended")

    async def call(ctx: Any, params: Any) -> Any:
        if params.name == "wait":
            seen.append("waits")
            await library.Event().wait()
        await ctx.session.send_tool_list_changed()
        return types.CallToolResult(content=[types.TextContent(text=ctx.lifespan_context)])

    server: Any = Server("shop", version="1", lifespan=lifespan, on_call_tool=call)
    async with create_client_server_memory_streams() as ((read, write), ends), anyio.create_task_group() as group:
        group.start_soon(server.run, *ends, server.create_initialization_options())
        await ask(write, "initialize", HELLO, id=1)
        assert (await read.receive()).message.result["serverInfo"]["name"] == "shop"
        await ask(write, "notifications/initialized", {})
        await ask(write, "initialize", HELLO, id=4)  # Another handshake is answered as the first one.
        again = (await read.receive()).message
        assert (again.id, again.result["serverInfo"]["name"]) == (4, "shop")
        await ask(write, "notifications/initialized", {})
        await ask(write, "tools/call", {"name": "say"}, id=2)
        assert (await read.receive()).message.method == "notifications/tools/list_changed"
        assert (await read.receive()).message.result["content"][0]["text"] == "state"
        await ask(write, "tools/call", {"name": "wait"}, id=3)
        while "waits" not in seen:
            await anyio.lowlevel.checkpoint()
        await ask(write, "notifications/cancelled", {"requestId": 3})
        cancelled = (await read.receive()).message
        assert (cancelled.id, cancelled.error.message) == (3, "Request cancelled")
        await write.aclose()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_low_level_server_runs_its_handlers_and_its_lifespan_in_the_loop_of_the_program(backend: str) -> None:
    seen: list[str] = []
    anyio.run(program, backend, seen, backend=backend)
    assert seen == ["started", "waits", "ended"]
