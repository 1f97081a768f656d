"""A server of several processes, for tests: `python worker_server.py STORE WORKERS`. It writes its URL."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp_generated import App, Context, RateLimit
from mcp_generated.dependencies import get_http_request

BURST = 5
app = App("many", rate_limits={"list_prompts": RateLimit(0.001, burst=BURST)})


@app.tool
async def who() -> int:
    return os.getpid()


@app.tool
async def order(ctx: Context) -> str:
    answer = await ctx.elicit("What colour?", str)
    return f"{answer.action} {getattr(answer, 'data', '')} {os.getpid()}"


@app.tool
async def count(ctx: Context, steps: int) -> int:
    for step in range(steps):
        await ctx.report_progress(step + 1)
        await asyncio.sleep(0.005)
    return os.getpid()


@app.tool
async def address() -> str:
    client = get_http_request().client
    return "" if client is None else client.host


@app.tool
async def stay(begun: str, ended: str) -> str:
    """Say nothing, and make a file when the call begins and another one when it is cancelled."""
    Path(begun).touch()
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        Path(ended).touch()
        raise
    return ""


@app.tool
async def add_tool() -> str:
    await app.server.notify_tool_list_changed()
    return ""


@app.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


if __name__ == "__main__":
    store, workers = sys.argv[1:]
    settings: dict[str, Any] = {"health_path": "/healthz", "ready_path": "/readyz"}
    settings["server"] = os.environ.get("SERVER", "uvicorn")
    if store != "memory":  # Workers that are given no store share a temporary one.
        settings["store"] = store
    app.run("http", port=0, workers=int(workers), **settings)
