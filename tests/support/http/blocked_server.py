"""A server over HTTP whose tools do not end: `python blocked_server.py` listens on a free port."""

from __future__ import annotations

import asyncio
import threading
import time

from mcp_generated import App, Context

app = App("blocked")


@app.tool
async def hang(ctx: Context) -> str:
    """Wait for ever; the log says that it has begun."""
    print("begun", flush=True)
    await asyncio.Event().wait()
    return "never"


@app.tool
async def deaf() -> str:
    """Wait for ever, cancelled or not."""
    print("begun", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass


@app.tool
async def block() -> str:
    """Block the event loop."""
    print("begun", flush=True)
    time.sleep(120)
    return "never"


@app.tool
async def executor() -> str:
    """Wait for a thread of asyncio."""
    print("begun", flush=True)
    await asyncio.to_thread(time.sleep, 120)
    return "never"


@app.tool
async def thread() -> str:
    """Leave a thread behind."""
    threading.Thread(target=time.sleep, args=[120]).start()
    print("begun", flush=True)
    return "started"


@app.tool
def plain() -> str:
    """Block a worker thread."""
    print("begun", flush=True)
    time.sleep(120)
    return "never"


@app.tool
async def large() -> str:
    """Return more than the buffers of a connection take."""
    print("begun", flush=True)
    return "x" * 8_000_000


if __name__ == "__main__":
    app.run("http", port=0)
