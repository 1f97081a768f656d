"""The official client of two regions, of which one is killed: `region_client.py URL MODE`.

It prints a line of JSON for each thing that it sees, and waits for a line before each step but the first.
"""

from __future__ import annotations

import json
import sys

import anyio
import mcp


async def see(client: mcp.Client, name: str) -> None:
    """Print the region of a call, or its error."""
    try:
        seen = {"region": (await client.call_tool(name, {})).content[0].text}
    except Exception as error:
        seen = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(seen), flush=True)


async def next_step() -> None:
    await anyio.to_thread.run_sync(sys.stdin.readline)


async def main(url: str, mode: str) -> None:
    with anyio.fail_after(90):
        async with mcp.Client(url, mode=mode) as client:  # type: ignore[arg-type]
            await see(client, "where")
            await next_step()
            await see(client, "where")
        await next_step()
        async with mcp.Client(url, mode=mode) as client:  # type: ignore[arg-type]
            await see(client, "where")


anyio.run(main, *sys.argv[1:])
