"""A server's command goes in; what the official Python SDK's client saw of an app comes out as JSON.

Runs in an environment that holds that SDK, version 1 or 2, and nothing of ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

LIMIT = 40.0  # Seconds for all of it.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("google", {"city": "Rome", "days": 2}),
    ("get-forecast", {"latitude": "1"}),
    ("who", {}),
    ("point", {"x": 3}),
    ("mixed", {}),
    ("total", {"numbers": [1, 2]}),
    ("refuses", {}),
]


def wire(value: Any) -> Any:
    """What came, as it is on the wire."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


@asynccontextmanager
async def connected(server: StdioServerParameters) -> AsyncIterator[tuple[Any, str]]:
    """A client, and the revision it has agreed on."""
    if hasattr(mcp, "Client"):
        async with mcp.Client(server) as client:
            yield client, client.protocol_version
    else:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            yield session, (await session.initialize()).protocolVersion


async def main(command: list[str]) -> None:
    seen: dict[str, Any] = {}
    with anyio.fail_after(LIMIT):
        async with connected(StdioServerParameters(command=command[0], args=command[1:])) as (client, revision):
            seen["revision"] = revision
            seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            seen["calls"] = {name: wire(await client.call_tool(name, arguments)) for name, arguments in CALLS}
            seen["resource"] = wire(await client.read_resource("weather://Rome/2"))
            seen["prompt"] = wire(await client.get_prompt("review", {"code": "x"}))
    print(json.dumps(seen))


anyio.run(main, sys.argv[1:])
