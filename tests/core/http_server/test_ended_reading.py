"""Calls that wait for the list of tools when the endpoint is closed get an answer that says so."""

from __future__ import annotations

import asyncio
from typing import Any

from support.endpoints import STATELESS, Rev, among
from support.http.asgi_client import Web

from mcp_generated.v2026_07_28 import Server
from mcp_generated.v2026_07_28 import types as t


class Slow(Server):
    """A server that does not list its tools."""

    def __init__(self) -> None:
        super().__init__(name="slow", version="1")
        self.begun = asyncio.Event()

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it is cancelled before")

    async def call_tool(self, ctx: Any, params: Any) -> t.CallToolResult:
        return t.CallToolResult(content=[])


@among(STATELESS)
async def test_a_call_that_waits_for_the_tools_is_told_that_the_endpoint_closes(rev: Rev) -> None:
    server = Slow()
    app = server.asgi()
    web = Web(app, rev)
    calls = [web.request(body=rev.request(number, "tools/call", {"name": "x", "arguments": {}})) for number in (1, 2)]
    await server.begun.wait()
    await app.close()
    for call in calls:
        answer = await call.whole()
        assert answer.status == 503
        assert "the server is shutting down" in answer.json["error"]["message"]
