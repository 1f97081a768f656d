"""The echo server of the benchmark, with the decorators of the official Python SDK."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo")


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


server.run("stdio")
