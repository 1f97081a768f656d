"""The echo server of the benchmark over HTTP, with the bindings of two versions; the port is the argument."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import uvicorn

from mcp_generated import v2025_11_25, v2026_07_28
from mcp_runtime.bindings.server import asgi_app
from mcp_runtime.transports.http_server.app import HTTPLimits


def echo(revision: ModuleType) -> Any:
    t = revision.types
    schema = t.ToolInputSchema.model_validate(
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    )

    class Echo(revision.Server):  # type: ignore[misc, name-defined]
        async def list_tools(self, ctx: Any, params: Any) -> Any:
            return t.ListToolsResult(tools=[t.Tool(name="echo", input_schema=schema)])

        async def call_tool(self, ctx: Any, params: Any) -> Any:
            text = str((params.arguments or {})["text"])
            return t.CallToolResult(content=[t.TextContent(text=text)])

    return Echo(name="echo", version="1.0")


LIMITS = HTTPLimits(max_sessions=30_000)

if __name__ == "__main__":
    app = asgi_app(echo(v2025_11_25), echo(v2026_07_28), path="/mcp", limits=LIMITS)
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="warning", backlog=4096)
