"""The server of one region: `python region_server.py REGION HOST PORT STORE KEY`. The key is hexadecimal."""

from __future__ import annotations

import asyncio
import sys

from mcp_generated import App, Context, KeyRing

region, host, port, store, key = sys.argv[1:]
app = App("regions", keys=KeyRing(bytes.fromhex(key)))


@app.tool
async def where() -> str:
    """Return the region."""
    return region


@app.tool
async def wait(ctx: Context) -> str:
    """Report that the call has begun, and never end."""
    await ctx.report_progress(1, 2)
    await asyncio.Event().wait()
    return region


@app.tool
async def order(ctx: Context) -> str:
    """Ask the user, in one round or over two."""
    answer = await ctx.elicit("What colour?", str)
    return f"{getattr(answer, 'data', '')} in {region}"


if __name__ == "__main__":
    app.run("http", host=host, port=int(port), store=store, hosts=["127.0.0.1", "localhost"], ready_path="/readyz")
