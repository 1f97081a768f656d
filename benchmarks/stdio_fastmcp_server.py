"""The echo server of the benchmark, written on FastMCP."""

from __future__ import annotations

from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


server.run("stdio", show_banner=False)
