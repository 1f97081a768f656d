"""What a proxy tells its clients of lists that change at the target."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_products.relay.proxy import client_side
from mcp_products.relay.proxy.client_side import ChangeTeller


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
    monkeypatch.setattr(client_side, "CHANGE_PAUSE", 0.0)
    client = SlowClient()
    teller = ChangeTeller("proxy", gathered_seconds=0.0)
    teller.add(client)
    for _ in range(3):  # These come at once, and are one.
        teller.list_changed("tools")
    await client.has_begun.wait()
    client.has_begun.clear()
    teller.list_changed("tools")
    await client.has_begun.wait()
    client.may_end.set()
    await teller.close()
    assert client.told == [["tools"], ["tools"]]
