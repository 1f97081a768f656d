"""A server over stdio whose tools are plain functions, but for one.

With the argument `soon`, a thread reads after one call, however slow the machine is, and until nothing comes for 20 ms.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from mcp_generated import App, Context
from mcp_products.fast import worker_threads as reading_thread

BEFORE: ContextVar[str] = ContextVar("before", default="nobody has set it")
BEFORE.set("set before the server runs")
turns = 0


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    async def count() -> None:
        global turns
        while True:
            await asyncio.sleep(0.005)
            turns += 1

    counting = asyncio.create_task(count())
    yield
    counting.cancel()


app = App("functions", lifespan=lifespan)


def names_below() -> list[str]:
    frame, names = sys._getframe(), []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return names


@app.tool()
def echo(text: str = "") -> str:
    return text


@app.tool()
def reads() -> bool:
    """Whether the thread that runs the function has read the request."""
    return "_serve_in_thread" in names_below()


@app.tool()
def is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@app.tool()
def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "awake"


@app.tool()
def work(seconds: float) -> str:
    """Keep the interpreter busy."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
    return "done"


@app.tool()
async def waits(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "waited"


@app.tool()
def later() -> Any:
    """Return an awaitable, which runs in the event loop."""

    async def result() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    return result()


@app.tool()
def own_loop() -> str:
    async def result() -> str:
        return await asyncio.to_thread(lambda: "of another event loop")

    return asyncio.run(result())


@app.tool()
def progress(ctx: Context, steps: int) -> str:
    for step in range(steps):
        ctx.sync.progress(step + 1, steps)
    return "all of it"


@app.tool()
def fails(kind: str) -> str:
    raise {"value": ValueError, "stop": StopIteration, "cancelled": asyncio.CancelledError}[kind]("no")


@app.tool()
def leaves() -> str:
    raise SystemExit(7)


@app.tool()
def grow(number: int) -> str:
    """Add a tool, which changes the list."""
    app.tool(name=f"tool_{number}")(echo)
    return "more"


@app.tool()
def context() -> str:
    before = BEFORE.get()
    BEFORE.set("set by another call")
    return before


@app.tool()
def count() -> int:
    return turns


@app.tool()
def long(size: int) -> str:
    return "x" * size


if "soon" in sys.argv:
    if sys.platform == "linux":
        from mcp_products.fast import stdio

        stdio.QUICK_SECONDS = 10.0  # type: ignore[misc]
        stdio.CALLS = 1  # type: ignore[misc]
    reading_thread.IDLE_SECONDS = 0.02  # type: ignore[misc]
app.run("stdio")
