"""Call the echo tool of a server with the client session of the official Python SDK, and print the cost."""

from __future__ import annotations

import asyncio

import mcp_types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from stdio_calls import report, server


async def main() -> None:
    command, *arguments = server()
    parameters = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(parameters) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        await session.initialize()

        async def call(text: str) -> str:
            result = await session.call_tool("echo", {"text": text})
            content = result.content[0]
            assert isinstance(content, types.TextContent)
            return content.text

        await report(call)


asyncio.run(main())
