"""Call the tools of servers/context.py with the official Python SDK, and print what its client received as JSON.

Arguments: a revision, and a server's command or its URL. It runs in an environment with that SDK, version 1 or 2.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import anyio
from mcp import ClientSession
from python_one import NEWEST, talking
from python_sdk import LIMIT, Callbacks, offer, outcome

CALLS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("log_all", "own", "write_text", "by_session", "who", "forget", "visit")},
    "fill_in": {"shape": "model"},
}


async def main(revision: str, server: list[str]) -> None:
    """Print the results of the calls, the log messages and the progress."""
    callbacks, progress = Callbacks(), list[Any]()

    async def on_progress(value: float, total: float | None, message: str | None) -> None:
        progress.append([value, total, message])

    if revision != NEWEST:
        offer(revision)
    with anyio.fail_after(LIMIT):
        async with talking(revision, server, callbacks) as session:
            calls = {name: await outcome(session.call_tool(name, arguments)) for name, arguments in CALLS.items()}
            numbers = [await outcome(session.call_tool("count", {})) for _ in range(2)]
            await session.call_tool("report", {}, progress_callback=on_progress)
            notifications = list(callbacks.messages)
            if isinstance(session, ClientSession):
                await session.call_tool("change", {"action": "lists"})
                await callbacks.until("notifications/tools/list_changed")
    print(
        json.dumps(
            {"calls": calls, "counts": numbers, "progress": progress, "notifications": notifications}, default=str
        )
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Much of this is deprecated in the newest revision.
    anyio.run(main, sys.argv[1], sys.argv[2:])
