"""Print as JSON the structured content of one tool call of the official Python SDK's client, over stdio.

The arguments are the tool, its arguments as JSON, and the command of the server, which starts in the root folder with a
small environment, as hosts start it."""

from __future__ import annotations

import asyncio
import json
import sys

import mcp


async def main(tool: str, arguments: str, command: str, *rest: str) -> None:
    async with mcp.Client(mcp.StdioServerParameters(command=command, args=[*rest], cwd="/")) as client:
        result = await client.call_tool(tool, json.loads(arguments))
        print(json.dumps(result.structured_content))


asyncio.run(main(*sys.argv[1:]))
