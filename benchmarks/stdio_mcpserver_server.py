"""The echo server of the benchmark, written on the decorators of the official Python SDK."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo")


@server.tool()
async def echo(text: str) -> str:
    """Say it again."""
    return text


server.run("stdio")
