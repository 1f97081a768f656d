"""The server of README with MCPServer of the official SDK, over stdio or over HTTP on the port of its argument."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

app = MCPServer("calculator")


@app.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if len(sys.argv) == 1:
    app.run("stdio")
else:
    app.run("streamable-http", port=int(sys.argv[1]))
