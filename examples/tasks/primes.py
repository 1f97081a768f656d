"""A slow tool: clients with the tasks extension get a task and poll it, other clients wait for the result.

Run it: `python examples/tasks/primes.py` serves over stdio; `… primes.py client 200000` calls such a server, first with
the methods of the extension and then with a client that polls by itself.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

from mcp_generated import App, Context, TaskOptions, ToolError, printable
from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2026_07_28 import Client

MAX_BELOW: Final = 5_000_000
PART: Final = 20_000  # Numbers between two steps of the event loop, which has other requests to handle.

app = App("primes", "Counts prime numbers.", version="1.0")


@app.tool(task=TaskOptions(ttl=600, poll_interval=0.1))
async def count_primes(below: int, ctx: Context) -> int:
    """Count the prime numbers below a number.

    Args:
        below: At most 5,000,000.
    """
    if not 0 <= below <= MAX_BELOW:
        raise ToolError(f"below has to be between 0 and {MAX_BELOW}")
    count = 0
    for start in range(0, below, PART):
        count += sum(map(is_prime, range(start, min(start + PART, below))))
        await ctx.status(f"{count} primes below {min(start + PART, below)}")
        await asyncio.sleep(0)
    return count


def is_prime(number: int) -> bool:
    """Return True for a prime number."""
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


async def run_client(below: int) -> None:
    """Call the tool of a new server, first with the methods of the extension, then with automatic polling."""
    command = (sys.executable, __file__)
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with tasks.Client.stdio(*command, capabilities=capabilities) as client:
        created = await client.call_tool("count_primes", {"below": below})
        assert isinstance(created, t.CreateTaskResult)
        while (task := await client.get_task(created.task_id)).status == "working":
            print(printable(f"working: {task.status_message}"))
            await asyncio.sleep((task.poll_interval_ms or 1000) / 1000)
        print(printable(f"{task.status}: {(task.result or {}).get('structuredContent')}"))
    async with Client.stdio(*command, extensions=[tasks]) as client:
        result = await client.call_tool("count_primes", {"below": below})
        print(printable(str(result.structured_content)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        asyncio.run(run_client(int(sys.argv[2])))
    else:
        app.run("stdio")
