"""Lists that many sessions of one client read at a gateway leave places to those of another."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from support.http.raw_sessions import Session
from support.http.sockets import listening

from mcp_generated import Gateway
from mcp_generated.v2025_11_25 import Server
from mcp_generated.v2025_11_25 import types as t

MANY = 24  # More than the lists that are read at the same time.


class Target(Server):
    """A server whose first lists wait until they may be answered."""

    def __init__(self) -> None:
        super().__init__(name="target", version="1")
        self.waiting = 0
        self.is_quick = False
        self.go = asyncio.Event()

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        if not self.is_quick:
            self.waiting += 1
            await self.go.wait()
        return t.ListToolsResult(tools=[t.Tool(name="go", input_schema=t.ToolInputSchema())])

    async def call_tool(self, ctx: Any, params: Any) -> t.CallToolResult:
        return t.CallToolResult(content=[t.TextContent(text="done")])


@pytest.mark.long
@pytest.mark.parametrize("front", ["2025-03-26", "2025-11-25"])
@pytest.mark.deadline(60)
async def test_slow_lists_of_many_sessions_of_one_client_let_another_list_and_call(front: str) -> None:
    target = Target()
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(listening(target.asgi(revisions=["2025-11-25"])))
        entry = {"url": f"http://127.0.0.1:{behind}/mcp", "prefix": "", "list_timeout": 20}
        app = Gateway({"upstreams": {"target": entry}}).app.asgi()
        port = await stack.enter_async_context(listening(app))
        greedy = [Session(f"http://127.0.0.1:{port}/mcp", front) for _ in range(MANY)]
        other = Session(f"http://127.0.0.1:{port}/mcp", front, "127.0.0.2")
        for session in (*greedy, other):
            await stack.enter_async_context(session.web)
            await session.open()
        lists = [asyncio.create_task(session.request("tools/list", {})) for session in greedy]
        async with asyncio.timeout(20):
            while target.waiting < MANY // 4:
                await asyncio.sleep(0.01)
        target.is_quick = True
        listed = await other.request("tools/list", {})
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["go"]
        called = await other.request("tools/call", {"name": "go", "arguments": {}})
        assert called["result"]["content"][0]["text"] == "done"
        # A list that reaches the target only now is answered at once; those that wait there still do.
        assert sum(not task.done() for task in lists) >= target.waiting
        target.go.set()
        assert all("result" in answer for answer in await asyncio.gather(*lists))
