"""The smallest useful server, for clients of every version: `echo` returns its text, `slow` responds after seconds.

Run it: `python examples/echo/server.py stdio`, or `… http --port 8000` with the endpoint /mcp. There is one class for
each version; a client gets the one of its version.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser
from types import ModuleType
from typing import Any

from mcp_generated import JSONRPCError, run, v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28

INVALID_PARAMS = -32602


def tools(t: Any) -> list[Any]:
    """Return the tools as types of one version."""
    text = t.ToolInputSchema.model_validate(schema({"text": {"type": "string"}}, "text"))
    seconds = t.ToolInputSchema.model_validate(schema({"seconds": {"type": "number"}}, "seconds"))
    return [
        t.Tool(name="echo", description="Give the text back.", input_schema=text),
        t.Tool(name="slow", description="Answer after some seconds.", input_schema=seconds),
    ]


def schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


async def run_tool(name: str, arguments: dict[str, Any]) -> str:
    """Run a tool. Raises JSONRPCError for an unknown tool or wrong arguments."""
    match name, arguments:
        case "echo", {"text": str(text)}:
            return text
        case "slow", {"seconds": int() | float() as seconds} if not isinstance(seconds, bool):
            await asyncio.sleep(seconds)
            return f"waited {seconds} s"
        case _:
            raise JSONRPCError(INVALID_PARAMS, f"no tool takes this: {name} with {sorted(arguments)}")


def echo(revision: ModuleType) -> Any:
    """Return a server of one version, which loads the types of that version when a client uses it."""

    class Echo(revision.Server):  # type: ignore[misc, name-defined]
        async def list_tools(self, ctx: Any, params: Any) -> Any:
            return revision.types.ListToolsResult(tools=tools(revision.types))

        async def call_tool(self, ctx: Any, params: Any) -> Any:
            text, t = await run_tool(params.name, params.arguments or {}), revision.types
            return t.CallToolResult(content=[t.TextContent(text=text)])

    return Echo(name="echo", version="1.0")


if __name__ == "__main__":
    versions = (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28)
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("transport", nargs="?", choices=("stdio", "http"), default="stdio")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    settings = {"port": options.port} if options.transport == "http" else {}
    run(*map(echo, versions), transport=options.transport, **settings)
