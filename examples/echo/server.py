"""The smallest useful server, for clients of every revision: `echo` gives its text back, `slow` answers after a while.

Run it: `python examples/echo/server.py stdio`, or `… http --port 8000` with the endpoint /mcp. Each class is one revision's; a client gets the one it speaks.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser
from types import ModuleType
from typing import Any

from mcp_generated import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.bindings.server import run

INVALID_PARAMS = -32602


def tools(t: Any) -> list[Any]:
    """The tools, as the types of one revision."""
    text = t.ToolInputSchema.model_validate(schema({"text": {"type": "string"}}, "text"))
    seconds = t.ToolInputSchema.model_validate(schema({"seconds": {"type": "number"}}, "seconds"))
    return [
        t.Tool(name="echo", description="Give the text back.", input_schema=text),
        t.Tool(name="slow", description="Answer after some seconds.", input_schema=seconds),
    ]


def schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


async def answer(name: str, arguments: dict[str, Any]) -> str:
    match name, arguments:
        case "echo", {"text": str(text)}:
            return text
        case "slow", {"seconds": int() | float() as seconds}:
            await asyncio.sleep(seconds)
            return f"waited {seconds} s"
        case _:
            raise JSONRPCError(INVALID_PARAMS, f"no tool takes this: {name} with {sorted(arguments)}")


def echo(revision: ModuleType) -> Any:
    """A server of one revision."""
    t = revision.types

    class Echo(revision.Server):  # type: ignore[misc, name-defined]
        async def list_tools(self, ctx: Any, params: Any) -> Any:
            return t.ListToolsResult(tools=tools(t))

        async def call_tool(self, ctx: Any, params: Any) -> Any:
            text = await answer(params.name, params.arguments or {})
            return t.CallToolResult(content=[t.TextContent(text=text)])

    return Echo(name="echo", version="1.0")


if __name__ == "__main__":
    every = (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28)
    arguments = ArgumentParser(description=__doc__)
    arguments.add_argument("transport", nargs="?", choices=("stdio", "http"), default="stdio")
    arguments.add_argument("--port", type=int, default=8000)
    chosen = arguments.parse_args()
    logging.basicConfig(level=logging.INFO)
    settings = {"port": chosen.port} if chosen.transport == "http" else {}
    run(*map(echo, every), transport=chosen.transport, **settings)
