"""The echo server of the benchmark, with the bindings of one version."""

from __future__ import annotations

from mcp_generated.v2025_06_18 import Context, Server
from mcp_generated.v2025_06_18 import types as t


class Echo(Server):
    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        schema = t.ToolInputSchema(properties={"text": {"type": "string"}}, required=["text"])
        return t.ListToolsResult(tools=[t.Tool(name="echo", input_schema=schema)])

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        text = str((params.arguments or {})["text"])
        return t.CallToolResult(content=[t.TextContent(text=text)])


Echo(name="echo", version="1.0").run("stdio")
