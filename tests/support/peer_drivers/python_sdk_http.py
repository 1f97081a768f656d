"""A server of the official Python SDK, version 1 or 2, over HTTP: it prints its port, and serves until it is ended."""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn

try:
    from mcp.server import MCPServer as App
    from mcp.server.mcpserver import Context
except ImportError:
    from mcp.server.fastmcp import Context  # type: ignore[no-redef]
    from mcp.server.fastmcp import FastMCP as App  # type: ignore[no-redef]

app: Any = App("sdk")


@app.tool()
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


@app.tool()
async def steps(ctx: Context) -> str:
    """Tells of its progress, and of what it does."""
    for number in (1, 2, 3):
        await ctx.report_progress(number, 3)
    return "done"


@app.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("it fails")


@app.tool()
def big() -> str:
    """Three mebibytes."""
    return "x" * (3 << 20)


@app.resource("demo://text")
def text() -> str:
    """A text."""
    return "héllo"


@app.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Hello, {name}"


mode = sys.argv[1]
if mode == "sse":
    asgi = app.sse_app()
elif mode == "json" and hasattr(app, "settings") and hasattr(app.settings, "json_response"):
    app.settings.json_response = True
    asgi = app.streamable_http_app()
elif mode == "json":
    asgi = app.streamable_http_app(json_response=True)
else:
    asgi = app.streamable_http_app()
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()  # From now on who comes waits in line.
print("port", listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(asgi, log_level="error")).run(sockets=[listening])
