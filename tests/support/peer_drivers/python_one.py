"""Print as JSON what the official Python SDK's client sees of examples/everything/app.py, at a revision, by its command
or URL. Runs in an environment that holds that SDK, version 1 or 2, and nothing of ours."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from python_sdk import LIMIT, Callbacks, connected, offer, outcome, uri, wire

NEWEST = "2026-07-28"
CALLS: dict[str, dict[str, Any]] = {
    "echo": {"text": "héllo\n\u2028"},
    "statistics": {"numbers": [1, 2.5]},
    **{name: {} for name in ("image", "audio", "mixed", "fail", "list_roots", "elicit_name", "nonsense")},
    "sample": {"prompt": "hello"},
    "log_something": {"level": "error", "text": "shown"},
}


@asynccontextmanager
async def talking(revision: str, server: list[str], callbacks: Callbacks) -> AsyncIterator[Any]:
    settings: Any = {
        "sampling_callback": callbacks.sample,
        "elicitation_callback": callbacks.elicit,
        "list_roots_callback": callbacks.roots,
        "logging_callback": callbacks.log,
        "message_handler": callbacks.message,
    }
    if revision == NEWEST:
        command, *arguments = server
        target: Any = StdioServerParameters(command=command, args=arguments) if arguments else command
        async with mcp.Client(target, **settings) as client:
            yield client
    else:
        async with connected(server) as streams, ClientSession(*streams, **settings) as session:
            await session.initialize()
            yield session


async def main(revision: str, server: list[str]) -> None:
    callbacks, progress_updates = Callbacks(), list[Any]()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progress_updates.append([progress, total, message])

    if revision != NEWEST:
        offer(revision)
    with anyio.fail_after(LIMIT):
        async with talking(revision, server, callbacks) as session:
            seen: dict[str, Any] = {
                "tools": [tool.name for tool in (await session.list_tools()).tools],
                "calls": {name: await outcome(session.call_tool(name, arguments)) for name, arguments in CALLS.items()},
                "resource": await outcome(session.read_resource(uri("demo://number/7"))),
                "prompt": await outcome(session.get_prompt("describe", {"city": "Rome"})),
            }
            prompt = types.PromptReference(type="ref/prompt", name="describe")
            completion = await session.complete(prompt, {"name": "city", "value": "pa"})
            seen["completion"] = wire(completion)["completion"]["values"]
            arguments = {"seconds": 0.0, "steps": 2}
            await session.call_tool("long_running", arguments, progress_callback=on_progress)
            seen["progress"] = progress_updates
    print(json.dumps(seen))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Much of what is asked here is deprecated in the newest revision.
    anyio.run(main, sys.argv[1], sys.argv[2:])
