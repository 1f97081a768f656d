"""Messages that only the versions with a handshake have, from one side of a proxy to the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Context, RemoteJSONRPCError
from mcp_generated.v2025_11_25 import Client, Server
from mcp_generated.v2025_11_25 import types as t


class Target(Server):
    """A server with a tool, which notes what it receives."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.roots_changed = asyncio.Event()

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="go", input_schema=t.ToolInputSchema())])

    async def call_tool(self, ctx: Any, params: Any) -> t.CallToolResult:
        await ctx.notify_elicitation_complete("id 1")
        return t.CallToolResult(content=[t.TextContent(text="done")])

    async def on_roots_list_changed(self, ctx: Any, params: Any) -> None:
        self.roots_changed.set()


class Front(Client):
    """A client that notes what it receives."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.completed: asyncio.Queue[str] = asyncio.Queue()

    async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="cancel")

    async def on_elicitation_complete(self, ctx: Any, params: Any) -> None:
        self.completed.put_nowait(params.elicitation_id)


def front_of(target: Any, **settings: Any) -> Front:
    capabilities = {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}}
    return connect(App.proxy(target, **settings), client=Front, revisions=["2025-11-25"], capabilities=capabilities)


async def test_the_end_of_an_elicitation_at_a_url_and_changes_of_roots_are_passed() -> None:
    target = Target(name="target", version="1")
    async with front_of(target) as client:
        await client.call_tool("go")
        assert await client.completed.get() == "id 1"
        await client.notify_roots_list_changed()
        await target.roots_changed.wait()


@pytest.mark.parametrize("target", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_the_level_of_log_messages_is_that_of_the_client(target: str) -> None:
    app = App("target")

    @app.tool
    async def level(ctx: Context) -> str:
        return str(ctx.meta.get("io.modelcontextprotocol/logLevel") or ctx.connection_state.log_level)

    async with front_of(app, revisions=[target]) as client:
        for expected in ("debug", "error", "info"):
            if expected != "debug":
                await client.set_level(expected)
            assert (await client.call_tool("level")).content[0].text == expected


async def test_a_subscription_that_the_target_refuses_is_an_error_and_a_second_one_is_none() -> None:
    app = App("target")
    app.add_resource("note://a", lambda: "a")

    @app.tool
    async def change(ctx: Context) -> str:
        await ctx.notify_resource_updated("note://a")
        return "changed"

    async with front_of(app, revisions=["2025-11-25"]) as client:
        await client.subscribe("note://a")
        async with client.listen(resource_updated=["note://a"]) as changes:
            await client.call_tool("change")
            assert (await anext(changes)).params.uri == "note://a"
        await client.unsubscribe("note://a")
    async with front_of(Target(name="target", version="1")) as client:
        with pytest.raises(RemoteJSONRPCError, match="does not allow to subscribe to 'note://a'"):
            await client.subscribe("note://a")
