"""`MCPServer(subscriptions=bus)`: a change in one server reaches the clients of all servers with the bus."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among

from mcp_generated import LocalError
from mcp_generated.compat import (
    Context,
    InMemorySubscriptionBus,
    MCPServer,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    SubscriptionBus,
    ToolsListChanged,
)


def notebook(bus: SubscriptionBus) -> MCPServer:
    """Return one of several servers that share a bus."""
    server = MCPServer("notebook", subscriptions=bus)

    @server.resource("note://one")
    def one() -> str:
        return "text"

    @server.tool()
    async def edit(ctx: Context) -> str:
        await ctx.notify_resource_updated("note://one")
        return "edited"

    @server.tool()
    async def grow(ctx: Context) -> str:
        await ctx.notify_tools_changed()
        return "grown"

    return server


class Broker(InMemorySubscriptionBus):
    """A bus that records what it passes."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    async def publish(self, event: Any) -> None:
        self.events.append(event)
        await super().publish(event)


@among(ALL_REVISIONS)
async def test_changes_reach_the_clients_of_the_other_server(rev: Rev) -> None:
    bus = Broker()
    first, second = notebook(bus), notebook(bus)
    async with connect(first) as editor, connect(second, revisions=[rev.id]) as reader:
        async with reader.listen(resource_updated=["note://one"]) as changes, reader.listen() as lists:
            await editor.call_tool("edit")
            change: Any = await anext(changes)
            assert change.params.uri == "note://one"
            await editor.call_tool("grow")
            assert (await anext(lists)).method == "notifications/tools/list_changed"
    assert bus.events[0] == ResourceUpdated("note://one") and len(bus.events) == 2


async def test_a_server_with_another_bus_hears_nothing() -> None:
    first, other = notebook(Broker()), notebook(Broker())
    async with connect(first) as editor, connect(other) as reader:
        async with reader.listen(resource_updated=["note://one"]) as changes:
            await editor.call_tool("edit")
            await reader.call_tool("edit")
            await anext(changes)
            second = asyncio.ensure_future(anext(changes))
            await reader.list_tools()
            assert not second.done()
            second.cancel()


def test_what_is_no_bus_is_refused() -> None:
    server = MCPServer("notebook", subscriptions="redis://localhost")
    with pytest.raises(LocalError, match="is not a bus: pass InMemorySubscriptionBus") as caught:
        server.server
    assert len(str(caught.value).splitlines()) <= 2


def test_events_of_one_kind_are_equal_can_be_in_a_set_and_do_not_change() -> None:
    kinds = [
        (PromptsListChanged, ()),
        (ResourcesListChanged, ()),
        (ToolsListChanged, ()),
        (ResourceUpdated, ("a://b",)),
    ]
    events: set[Any] = {kind(*arguments) for kind, arguments in kinds for _ in range(2)}
    assert len(events) == 4 and ResourceUpdated("a://b") != ResourceUpdated("a://c")
    for event in events:
        with pytest.raises(AttributeError):
            event.uri = "a://d"
