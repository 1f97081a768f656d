"""A server made with the official SDK, of either version; run it with the interpreter that has it."""

from __future__ import annotations

try:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # Before version 2 it had another name.
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server

server = Server("official")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def work(ctx: Context) -> str:
    """Tell how far it is."""
    await ctx.report_progress(1, 2, "half")
    return "done"


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "hello"


@server.prompt()
def question(about: str) -> str:
    """Ask about something."""
    return f"What is {about}?"


server.run("stdio")
