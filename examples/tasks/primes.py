"""A tool that takes long: clients that know tasks get one, and ask how it stands; the others wait for the answer.

Run it: `python examples/tasks/primes.py` serves over stdio; `… primes.py client 200000` asks such a server, first by hand
and then like any client that has the extension.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

from mcp_generated import App, Context, TaskOptions, ToolError
from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2026_07_28 import Client

MOST: Final = 5_000_000
PART: Final = 20_000  # Numbers between two looks at everything else that the server has to do.

app = App("primes", "Counts prime numbers.", version="1.0")


@app.tool(task=TaskOptions(ttl=600, poll_interval=0.1))
async def count_primes(below: int, ctx: Context) -> int:
    """Count the prime numbers below a number.

    Args:
        below: At most 5,000,000.
    """
    if not 0 <= below <= MOST:
        raise ToolError(f"below has to be between 0 and {MOST}")
    found = 0
    for start in range(0, below, PART):
        found += sum(map(is_prime, range(start, min(start + PART, below))))
        await ctx.status(f"{found} primes below {min(start + PART, below)}")
        await asyncio.sleep(0)
    return found


def is_prime(number: int) -> bool:
    return number > 1 and all(number % each for each in range(2, int(number**0.5) + 1))


async def ask(below: int) -> None:
    """Call the tool of a server of its own, by hand, and then as if there were no tasks."""
    command = (sys.executable, __file__)
    knows: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with tasks.Client.stdio(*command, capabilities=knows) as client:
        made = await client.call_tool(name="count_primes", arguments={"below": below})
        assert isinstance(made, t.CreateTaskResult)
        while (stands := await client.get_task(task_id=made.task_id)).status == "working":
            print(f"working: {stands.status_message}")
            await asyncio.sleep((stands.poll_interval_ms or 1000) / 1000)
        print(f"{stands.status}: {(stands.result or {}).get('structuredContent')}")
    async with Client.stdio(*command, extensions=[tasks]) as client:
        result = await client.call_tool(name="count_primes", arguments={"below": below})
        print(result.structured_content)


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        asyncio.run(ask(int(sys.argv[2])))
    else:
        app.run("stdio")
