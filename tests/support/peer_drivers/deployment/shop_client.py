"""What the newer official Python client gets of the shop of examples/deployment/, at a URL and in a mode, as JSON."""

from __future__ import annotations

import json
import sys

import anyio
import mcp

LIMIT = 40.0  # Seconds for all of it.


async def main(url: str, mode: str) -> None:
    progress: list[float] = []

    async def on_progress(value: float, total: float | None, message: str | None) -> None:
        progress.append(value)

    with anyio.fail_after(LIMIT):
        async with mcp.Client(url, mode=mode) as client:  # type: ignore[arg-type]
            prices = [(await client.call_tool("price", {"article": "pan"})).structured_content for _ in range(6)]
            arguments = {"articles": ["pan", "kettle", "spoon"]}
            total = await client.call_tool("total", arguments, progress_callback=on_progress)
            print(json.dumps({"prices": prices, "total": total.structured_content, "progress": progress}))


anyio.run(main, *sys.argv[1:])
