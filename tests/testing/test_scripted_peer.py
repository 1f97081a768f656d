"""The test kit: a scripted peer plays a server for our client, and a client for our server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from mcp_generated.v2025_06_18 import Client, Context, Server
from mcp_generated.v2025_06_18 import types as t
from mcp_generated.v2025_06_18.methods import REVISION
from mcp_products.testing.peer import ScriptedPeer
from mcp_runtime.errors import ConnectionClosedError


def within_deadline(conversation: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(conversation, 20.0))


class Echo(Server):
    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        return t.CallToolResult(content=[t.TextContent(text=params.name)])


def test_it_plays_a_server_for_a_client() -> None:
    async def conversation() -> None:
        peer = ScriptedPeer()

        async def use() -> None:
            async with Client(peer.connect) as client:
                assert (await client.list_tools()).tools == []
                with pytest.raises(ConnectionClosedError):
                    await client.list_tools()

        using = asyncio.create_task(use())
        opening = await peer.accept_initialize(REVISION, {"tools": {}})
        assert opening["params"]["protocolVersion"] == "2025-06-18"
        request = await peer.expect({"method": "tools/list"})
        await peer.send({"id": 999, "result": {"tools": "not of this call"}})
        await peer.send_bytes(b"noise")
        await peer.send({"id": request["id"], "result": {"tools": []}})
        await peer.expect({"method": "tools/list"})
        await peer.close()
        await using

    within_deadline(conversation())


def test_it_plays_a_client_for_a_server() -> None:
    async def conversation() -> None:
        peer = ScriptedPeer()
        serving = asyncio.create_task(Echo(name="echo", version="1").serve(peer.transport))
        answer = await peer.initialize(REVISION, {})
        assert answer["result"]["capabilities"] == {"tools": {}}
        await peer.send({"id": 1, "method": "tools/call", "params": {"name": "hi"}})
        await peer.expect({"id": 1, "result": {"content": [{"type": "text", "text": "hi"}]}})
        await peer.close()
        await serving

    within_deadline(conversation())


def test_it_says_what_it_heard_instead() -> None:
    async def conversation() -> None:
        peer = ScriptedPeer()
        serving = asyncio.create_task(Echo(name="echo", version="1").serve(peer.transport))
        await peer.initialize(REVISION, {})
        await peer.send({"id": 1, "method": "ping"})
        with pytest.raises(AssertionError, match=r"received .*'id': 1.*, expected \{'id': '1'\}"):
            await peer.expect({"id": "1"})
        with pytest.raises(AssertionError, match="no message within 0.05 s"):
            await peer.expect({}, timeout=0.05)
        await peer.close()
        await serving

    within_deadline(conversation())
