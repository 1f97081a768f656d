"""A host of the apps extension: it shows an app the call of a tool, and answers its questions."""

from __future__ import annotations

from typing import Any

from mcp_generated.extensions.apps import Context, Host
from mcp_generated.extensions.apps import types as t

LINKS = ("https://example.org/",)


class Window(Host):
    """Opens some links, runs one tool, and shows every app the same call."""

    initialize_extras = {
        "hostContext": {"theme": "dark", "styles": {"variables": {"--font-sans": "Inter"}}, "newer": 1}
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(name="window", version="1", **settings)
        self.messages: list[str] = []

    async def on_initialized(self, ctx: Context, params: t.NotificationParams | None) -> None:
        await ctx.notify_tool_input(arguments={"city": "Rome"})
        await ctx.notify_tool_result(content=[t.TextContent(text="sunny")])

    def open_link(self, ctx: Context, params: t.McpUiOpenLinkRequestParams) -> t.McpUiOpenLinkResult:
        return t.McpUiOpenLinkResult(is_error=None if params.url in LINKS else True)

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name == "ask-the-app":
            return await ctx.call_tool(name="where")
        return t.CallToolResult(content=[t.TextContent(text=f"{params.name} ran")])

    async def message(self, ctx: Context, params: t.McpUiMessageRequestParams) -> t.McpUiMessageResult:
        block = params.content[0]
        assert isinstance(block, t.TextContent)
        self.messages.append(block.text)
        return t.McpUiMessageResult()

    async def request_display_mode(
        self, ctx: Context, params: t.McpUiRequestDisplayModeRequestParams
    ) -> t.McpUiRequestDisplayModeResult:
        await ctx.notify_host_context_changed(display_mode="inline")
        return t.McpUiRequestDisplayModeResult(mode="inline")

    def on_logging_message(self, ctx: Context, params: t.LoggingMessageNotificationParams) -> None:
        self.messages.append(f"{params.level}: {params.data}")


if __name__ == "__main__":
    Window().run("stdio")
