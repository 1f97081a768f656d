"""A server for tests of ASGI servers: `python other_server_program.py SERVER STORE WORKERS`. It writes its URL."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp_generated import App, Context

app = App("others")


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
    return os.getpid()


@app.tool
async def wait(seconds: float) -> str:
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "waited"


if __name__ == "__main__":
    server, store, workers = sys.argv[1:]
    settings: Any = {"server": server, "store": store, "port": 0}
    if workers != "1":
        settings["workers"] = int(workers)
    app.run("http", health_path="/healthz", **settings)
