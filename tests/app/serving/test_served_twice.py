"""One app serves several clients at once, also in one event loop: none of them notices when another one leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App


def counter() -> App:
    app = App("counter", declare=["tools", "prompts", "resources"])

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    return app


async def is_notified(client: Any, app: App, name: str) -> bool:
    """Add a tool, and tell whether the client gets a notification of it."""
    async with client.listen(tool_list_changed=True) as changes:
        app.add_tool(lambda: "x", name=name, description="A tool.")
        change = await asyncio.wait_for(anext(changes), 10)
    return type(change).__name__ == "ToolListChangedNotification"


@pytest.mark.parametrize("clients", [2, 3])
async def test_those_who_stay_are_notified_after_another_client_has_left(revision: str, clients: int) -> None:
    app = counter()
    stays = connect(app, revisions=[revision])
    async with stays:
        for number in range(clients - 1):
            async with connect(app, revisions=[revision]) as leaves:
                assert await is_notified(leaves, app, f"early_{number}")
            assert await is_notified(stays, app, f"late_{number}")
        result = await stays.call_tool(name="add", arguments={"a": 1, "b": 2})
        assert result.content[0].text == "3"


async def test_an_app_that_nobody_is_connected_to_notifies_nobody_and_serves_again() -> None:
    app = counter()
    for number in range(2):
        async with connect(app) as client:
            assert await is_notified(client, app, f"while_{number}")
        app.add_tool(lambda: "x", name=f"after_{number}", description="A tool.")
    async with connect(app) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert names == {"add", "while_0", "after_0", "while_1", "after_1"}


def test_an_app_serves_one_event_loop_after_another_and_two_at_once() -> None:
    app = counter()

    async def use(name: str) -> bool:
        async with connect(app) as client:
            return await is_notified(client, app, name)

    async def use_two() -> list[bool]:
        async with connect(app) as client:
            other = asyncio.create_task(asyncio.to_thread(asyncio.run, use("in_a_thread")))
            return [await other, await is_notified(client, app, "here")]

    assert asyncio.run(use("first")) and asyncio.run(use("second"))
    assert asyncio.run(use_two()) == [True, True]
