"""A server of several processes with repeatable tasks, for tasks_kills.py: `task_server.py STORE WORKERS`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from serving import marked

from mcp_generated import App, TaskOptions

app = App("tasks", lifespan=marked)
OPTIONS = TaskOptions(repeatable=True, retries=3, poll_interval=0.2)


def note(text: str) -> None:
    """Note what a function does, and when."""
    with Path(os.environ["STORED"]).open("a", encoding="utf-8") as file:
        file.write(f"{time.time():.3f} {text}\n")


@app.tool(task=OPTIONS)
async def work(token: str, seconds: float) -> str:
    note(f"begins {token}")
    await asyncio.sleep(seconds)
    return token


@app.tool(task=OPTIONS)
def work_in_a_thread(token: str, seconds: float) -> str:
    note(f"begins {token}")
    time.sleep(seconds)
    return token


@app.tool(task=OPTIONS)
def fail_once(token: str, seconds: float) -> str:
    """Fail when this runs for the first time."""
    note(f"begins {token}")
    time.sleep(seconds)
    if f"fails {token}\n" not in Path(os.environ["STORED"]).read_text(encoding="utf-8"):
        note(f"fails {token}")
        raise OSError("this was the first time")
    return token


if __name__ == "__main__":
    store, workers = sys.argv[1:]
    if lease := os.environ.get("LEASE"):
        from mcp_products.workers.tasks import repeatable as docket_queue

        docket_queue._LEASE_SECONDS = float(lease)  # type: ignore[misc]
    app.run("http", port=0, workers=int(workers), store=store, json_response=True)
