"""Print as JSON the text of one tool call of the official Python SDK's session, over stdio, after a handshake.

The arguments are the tool, its arguments as JSON, and the command of the server."""

from __future__ import annotations

import asyncio
import json
import sys

from mcp import ClientSession
from python_sdk import connected


async def main(tool: str, arguments: str, *server: str) -> None:
    async with connected([*server]) as streams, ClientSession(*streams) as session:
        await session.initialize()
        result = await session.call_tool(tool, json.loads(arguments))
        print(json.dumps(result.content[0].text))


asyncio.run(main(*sys.argv[1:]))
