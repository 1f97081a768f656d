"""A server of several processes whose tools send what the clients of kills.py count: `load_server.py STORE WORKERS`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from serving import marked

from mcp_generated import App, Context, TaskOptions
from mcp_generated.http import HTTPLimits

app = App("reliability", lifespan=marked)
TASKS: set[asyncio.Task[None]] = set()
AFTER_THE_RESULT = 0.05  # Seconds.
WORK = 0.5  # Seconds.
TASK_SECONDS = 60.0  # For which a task is known.


def note(token: str) -> None:
    """Note that a message is stored."""
    with Path(os.environ["STORED"]).open("a", encoding="utf-8") as file:
        file.write(f"{token}\n")


@app.tool
async def echo(token: str) -> str:
    return token


@app.tool
async def count(ctx: Context, token: str, steps: int) -> str:
    """Report progress before the result."""
    for step in range(steps):
        await ctx.report_progress(step + 1, message=f"{token}:{step + 1}")
        await asyncio.sleep(0.01)
    return token


@app.tool
async def order(ctx: Context, token: str) -> str:
    """Request an answer of the client, which returns the token."""
    answer = await ctx.elicit(token, str)
    return str(getattr(answer, "data", answer.action))


@app.tool
async def say(ctx: Context, token: str) -> str:
    """Send a message after the result, which goes to the stream of the session; note when it is stored."""

    async def later() -> None:
        await asyncio.sleep(AFTER_THE_RESULT)
        await ctx.session.send_elicit_complete(token)
        await asyncio.to_thread(note, token)

    task = asyncio.create_task(later())
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)
    return token


@app.tool
async def announce(token: str) -> str:
    """Announce a change to all sessions."""
    await app.server.notify_tool_list_changed()
    return token


@app.resource("note://{name}")
async def read_note(name: str) -> str:
    return name


@app.tool
async def touch(token: str, uri: str) -> str:
    """Announce that a resource has changed."""
    await app.server.notify_resource_updated(uri)
    return token


@app.tool(task=TaskOptions(ttl=TASK_SECONDS))
async def work(token: str) -> str:
    """Work for a moment, as a task of clients that have tasks."""
    await asyncio.sleep(WORK)
    return token


@app.tool
async def held() -> str:
    """Return which process this is, and how many tasks of asyncio it has."""
    return f"{os.getpid()} {len(asyncio.all_tasks())}"


if __name__ == "__main__":
    store, workers = sys.argv[1:]
    uvicorn = {"timeout_keep_alive": int(os.environ.get("KEEP_ALIVE", "5"))}  # Seconds between two requests.
    probes = {"health_path": "/healthz", "ready_path": "/readyz"}
    idle = float(os.environ.get("IDLE", "1800"))  # Seconds after its last use at which a session ends.
    limits = HTTPLimits(session_idle_timeout=idle, handshake_timeout=idle)  # The machine sleeps in between.
    settings: dict[str, Any] = {"uvicorn": uvicorn, "limits": limits, **probes}
    app.run("http", port=0, workers=int(workers), store=store, **settings)
