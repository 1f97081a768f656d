"""The echo server of asgi_servers.py: `python asgi_echo_server.py SERVER STORE PORT`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp_generated import App, Context

app = App("echo")


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def report(text: str, ctx: Context) -> str:
    """Report progress, so that the response is a stream."""
    await ctx.report_progress(1, 2)
    return text


@app.tool
async def wait(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "waited"


if __name__ == "__main__":
    server, store, port = sys.argv[1:]
    settings: Any = {"server": server, "store": store, "port": int(port)}
    app.run("http", **settings)
