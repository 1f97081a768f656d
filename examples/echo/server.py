"""The smallest useful server: `echo` gives back its text, `slow` answers after some seconds. Run it: server.py stdio."""

import asyncio
import sys

from mcp_generated.v2025_03_26 import Context, Server
from mcp_generated.v2025_03_26 import types as t
from mcp_runtime.errors import Refusal

TOOLS = [
    t.Tool(
        name="echo",
        description="Give the text back.",
        input_schema=t.ToolInputSchema(properties={"text": {"type": "string"}}, required=["text"]),
    ),
    t.Tool(
        name="slow",
        description="Answer after some seconds.",
        input_schema=t.ToolInputSchema(properties={"seconds": {"type": "number"}}, required=["seconds"]),
    ),
]


class Echo(Server):
    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        return t.ListToolsResult(tools=TOOLS)

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        match params.name, params.arguments or {}:
            case "echo", {"text": str(text)}:
                return t.CallToolResult(content=[t.TextContent(text=text)])
            case "slow", {"seconds": int() | float() as seconds}:
                await asyncio.sleep(seconds)
                return t.CallToolResult(content=[t.TextContent(text=f"waited {seconds} s")])
            case name, arguments:
                raise Refusal(-32602, f"no tool takes this: {name} with {sorted(arguments)}")


if __name__ == "__main__":
    Echo(name="echo", version="1.0").run(*sys.argv[1:])
