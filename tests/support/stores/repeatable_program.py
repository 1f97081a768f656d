"""A server of several processes with repeatable tasks, for tests: `python repeatable_program.py STORE WORKERS LOG`.

Its functions write into a file when they begin and how they end. A lease is a second, so that tests are short.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp_generated import App, Context, TaskOptions, ToolError
from mcp_generated.middleware import CallNext, MiddlewareContext
from mcp_products.workers.sessions import worker
from mcp_products.workers.tasks import repeatable as docket_queue

LEASE = 1.0
log = Path(os.devnull)


async def noting(context: MiddlewareContext, call_next: CallNext) -> Any:
    """Middleware, which the exceptions of functions pass."""
    try:
        return await call_next(context)
    except OSError as error:
        note(f"passes {error}")
        raise


app = App("repeatable", middleware=[noting])


def note(text: str) -> None:
    with log.open("a") as file:
        file.write(f"{os.getpid()} {text}\n")


@app.tool(task=TaskOptions(repeatable=True, poll_interval=0.05))
async def wait(name: str, seconds: float) -> str:
    note(f"begins {name}")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(f"cancelled {name}")
        raise
    note(f"ends {name}")
    return f"{name} has ended"


@app.tool(task=TaskOptions(repeatable=True, poll_interval=0.05))
def block(name: str, seconds: float) -> str:
    note(f"begins {name}")
    time.sleep(seconds)
    note(f"ends {name}")
    return f"{name} has ended"


@app.tool(task=TaskOptions(repeatable=True, poll_interval=0.05, retries=2))
async def fail(name: str, times: int) -> str:
    note(f"begins {name}")
    if log.read_text().count(f"begins {name}\n") <= times:
        raise OSError("the disk is full")
    return f"{name} has ended"


@app.tool(task=TaskOptions(repeatable=True, poll_interval=0.05, retries=2))
async def refuse(name: str) -> str:
    note(f"begins {name}")
    raise ToolError("there is no such thing")


@app.tool(task=TaskOptions(repeatable=True, poll_interval=0.05, retries=2))
async def end(name: str) -> str:
    note(f"begins {name}")
    if name == "exits":
        sys.exit(3)
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


@app.tool(task=TaskOptions(repeatable=True, poll_interval=0.05))
async def order(ctx: Context) -> str:
    await ctx.status("waits for a colour")
    answer = await ctx.elicit("What colour?", str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@app.tool(task=TaskOptions(repeatable=True, ttl=1.5, poll_interval=0.05))
async def expire(name: str) -> str:
    note(f"begins {name}")
    return "soon forgotten"


if __name__ == "__main__":
    store, workers, place = sys.argv[1:]
    log = Path(place)
    docket_queue._LEASE_SECONDS = LEASE  # type: ignore[misc]
    worker._TICK = 0.1  # type: ignore[misc]
    worker._ALIVE_SECONDS = LEASE  # type: ignore[misc]
    app.run("http", port=0, workers=int(workers), store=store, health_path="/healthz", ready_path="/readyz")
