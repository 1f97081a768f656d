"""What the newer official Python client sees of a server with several workers, at a URL and in a mode, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import mcp
from mcp import types

LIMIT = 40.0  # Seconds for all of it.


async def elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"value": "blue"})


async def main(url: str, mode: str) -> None:
    workers: set[str] = set()
    ordered: list[str] = []
    progress: list[float] = []

    async def on_progress(value: float, total: float | None, message: str | None) -> None:
        progress.append(value)

    with anyio.fail_after(LIMIT):
        async with mcp.Client(url, mode=mode, elicitation_callback=elicit) as client:  # type: ignore[arg-type]

            async def order() -> None:
                action, colour, _ = (await client.call_tool("order", {})).content[0].text.split()
                ordered.append(f"{action} {colour}")

            async def who() -> None:
                workers.add((await client.call_tool("who", {})).content[0].text)

            while len(workers) < 2:
                async with anyio.create_task_group() as group:
                    for _ in range(16):
                        group.start_soon(who)
            async with anyio.create_task_group() as group:
                for _ in range(16):
                    group.start_soon(order)
            await client.call_tool("count", {"steps": 20}, progress_callback=on_progress)
            version = client.protocol_version
    print(json.dumps({"version": version, "workers": len(workers), "ordered": ordered, "progress": progress}))


anyio.run(main, *sys.argv[1:])
