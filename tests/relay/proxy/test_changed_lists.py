"""What a proxy tells its client of lists that change at the target."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from mcp_generated.v2025_11_25.methods import REVISION
from mcp_products.relay.proxy import calls
from mcp_products.relay.proxy.calls import ProxyDownstream
from mcp_runtime.server.service import ServerDispatcher


class SlowClient:
    """Is told of changed lists, and takes its time for each."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def notify_lists_changed(self, kinds: list[str]) -> None:
        self.told.append(kinds)
        self.has_begun.set()
        await self.may_end.wait()


async def test_a_change_while_a_client_is_told_of_the_one_before_is_told_too(monkeypatch: Any) -> None:
    monkeypatch.setattr(calls, "CHANGE_PAUSE", 0.0)
    client = SlowClient()
    rows = {"tools": SimpleNamespace(name="on_tool_list_changed")}
    table = SimpleNamespace(up=SimpleNamespace(table=lambda direction: rows))
    connection = cast(Any, SimpleNamespace(translation=table))
    downstream = ProxyDownstream("proxy", REVISION, cast(ServerDispatcher, client))
    for _ in range(3):  # These come at once, and are one.
        await downstream.notified(connection, "tools", {})
    await client.has_begun.wait()
    client.has_begun.clear()
    await downstream.notified(connection, "tools", {})
    await client.has_begun.wait()
    client.may_end.set()
    await downstream.close()
    assert client.told == [["tools"], ["tools"]]
