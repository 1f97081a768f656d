"""An app of the apps extension that records what its host shows it, and the command of a host."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_generated.extensions.apps import App
from mcp_generated.extensions.apps import types as t
from mcp_generated.v2025_11_25 import types as core
from mcp_runtime.client.core import ClientContext
from support.project import SERVERS

HOST = str(SERVERS / "apps_host.py")


class View(App):
    """Keeps what its host shows it, and has a tool of its own."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.shown: list[str] = []
        self.done = asyncio.Event()

    async def on_tool_input(self, ctx: ClientContext, params: t.McpUiToolInputNotificationParams) -> None:
        self.shown.append(str((params.arguments or {})["city"]))

    async def on_tool_result(self, ctx: ClientContext, params: t.CallToolResult) -> None:
        block = params.content[0]
        assert isinstance(block, t.TextContent)
        self.shown.append(block.text)
        self.done.set()

    async def on_host_context_changed(self, ctx: ClientContext, params: t.McpUiHostContext) -> None:
        self.shown.append(str(params.display_mode))

    async def on_call_tool(self, ctx: ClientContext, params: t.CallToolRequestParams) -> t.CallToolResult:
        return t.CallToolResult(content=[t.TextContent(text="here")])


def text_of(result: t.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, core.TextContent)
    return block.text
