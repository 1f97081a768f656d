"""The echo server of the benchmark over HTTP, with the low-level server of the official Python SDK; the port is the
argument."""

from __future__ import annotations

import sys
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server


async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {})["text"])
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


server: Server[Any] = Server("echo", version="1.0", on_list_tools=list_tools, on_call_tool=call_tool)
app = server.streamable_http_app(json_response=True, max_sessions=30_000)
uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="warning", backlog=4096)
