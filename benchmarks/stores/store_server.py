"""The echo server of store_cost.py: `python store_server.py STORE WORKERS PORT`."""

from __future__ import annotations

import asyncio
import sys

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
async def work(text: str, ctx: Context) -> str:
    """Report progress, and go on: the messages of the stream are stored one after another."""
    await ctx.report_progress(1, 2)
    await asyncio.sleep(0.001)
    return text


if __name__ == "__main__":
    store, workers, port = sys.argv[1:]
    more = {} if workers == "1" else {"workers": int(workers)}
    app.run("http", port=int(port), store=store, uvicorn={"log_level": "warning"}, **more)  # type: ignore[arg-type]
