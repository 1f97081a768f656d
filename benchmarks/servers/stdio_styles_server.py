"""The echo server of the benchmark in the style that its argument names, with the bindings of the newest version."""

from __future__ import annotations

import sys


def by_class() -> None:
    """Serve with a class."""
    from mcp_generated.v2026_07_28 import Context, Server
    from mcp_generated.v2026_07_28 import types as t

    class Echo(Server):
        async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
            schema = t.ToolInputSchema.model_validate(
                {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            )
            return t.ListToolsResult(tools=[t.Tool(name="echo", input_schema=schema)])

        async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
            text = str((params.arguments or {})["text"])
            return t.CallToolResult(content=[t.TextContent(text=text)])

    Echo(name="echo", version="1.0").run("stdio")


def by_decorator() -> None:
    """Serve with functions."""
    from mcp_generated import App

    app = App("echo")

    @app.tool()
    async def echo(text: str) -> str:
        """Return the text."""
        return text

    app.run("stdio")


{"class": by_class, "app": by_decorator}[sys.argv[1]]()
