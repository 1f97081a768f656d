"""The echo server of the benchmark with FastMCP."""

from __future__ import annotations

from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


server.run("stdio", show_banner=False)
