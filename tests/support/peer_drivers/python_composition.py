"""Use servers/composition.py with the official Python SDK, and print what its client received as JSON.

Arguments: the calls as JSON, a revision, and a server's command or its URL. It runs in an environment with that SDK.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import anyio
from python_one import NEWEST, talking
from python_sdk import LIMIT, Callbacks, offer, outcome, uri


async def main(calls: dict[str, Any], revision: str, server: list[str]) -> None:
    """Print the results of the calls, and the lists before and after them."""
    if revision != NEWEST:
        offer(revision)
    with anyio.fail_after(LIMIT):
        async with talking(revision, server, Callbacks()) as session:
            seen: dict[str, Any] = {"before": [tool.name for tool in (await session.list_tools()).tools]}
            seen["calls"] = {
                name: await outcome(session.call_tool(name, arguments)) for name, arguments in calls.items()
            }
            seen["after"] = [tool.name for tool in (await session.list_tools()).tools]
            seen["resource"] = await outcome(session.read_resource(uri("note://text")))
            seen["prompt"] = await outcome(session.get_prompt("question", {"thing": "tea"}))
    print(json.dumps(seen))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main, json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:])
