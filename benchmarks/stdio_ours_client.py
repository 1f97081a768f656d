"""Call the echo tool of a server with the client of one version, and print the cost."""

from __future__ import annotations

import asyncio

from stdio_calls import report, server

from mcp_generated.v2025_06_18 import Client
from mcp_generated.v2025_06_18 import types as t


async def main() -> None:
    async with Client.stdio(*server()) as client:

        async def call(text: str) -> str:
            result = await client.call_tool(name="echo", arguments={"text": text})
            content = result.content[0]
            assert isinstance(content, t.TextContent)
            return content.text

        await report(call)


asyncio.run(main())
