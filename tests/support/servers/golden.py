"""The server of the golden conversations: revisions go in as arguments (none means all), it serves them over stdio.

Its tools are `echo`, `slow`, `fail`, `print` and `refuse`, it has one resource, and no prompts at all.
"""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

from mcp_generated import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
from mcp_runtime.bindings.server import run
from mcp_runtime.errors import JSONRPCError

PACKAGES = (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28)
INVALID_PARAMS = -32602
SECRET = "hunter2"
TOOLS = {
    "echo": {"text": "string"},
    "slow": {"seconds": "number"},
    "fail": {},
    "print": {"text": "string"},
    "refuse": {},
}


def tools(t: Any) -> list[Any]:
    """The tools, as the types of one revision."""
    return [t.Tool(name=name, input_schema=schema(t, arguments)) for name, arguments in TOOLS.items()]


def schema(t: Any, arguments: dict[str, str]) -> Any:
    properties = {name: {"type": kind} for name, kind in arguments.items()}
    return t.ToolInputSchema.model_validate({"type": "object", "properties": properties, "required": list(arguments)})


async def answer(name: str, arguments: dict[str, Any]) -> str:
    """The text that a tool gives."""
    match name, arguments:
        case "echo", {"text": str(text)}:
            return text
        case "slow", {"seconds": int() | float() as seconds}:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                print("slow was stopped", file=sys.stderr, flush=True)
                raise
            return f"waited {seconds} s"
        case "fail", _:
            raise ValueError(f"the password is {SECRET}")
        case "print", {"text": str(text)}:
            print(text, flush=True)
            sys.stdout.write(text + "\n")
            return "printed"
        case "refuse", _:
            raise JSONRPCError(-1, "not today", {"why": "closed"})
        case _:
            raise JSONRPCError(INVALID_PARAMS, f"no tool takes this: {name} with {sorted(arguments)}")


def golden(revision: ModuleType) -> Any:
    """A server of one revision."""
    t = revision.types

    class Golden(revision.Server):  # type: ignore[misc, name-defined]
        async def list_tools(self, ctx: Any, params: Any) -> Any:
            return t.ListToolsResult(tools=tools(t))

        async def call_tool(self, ctx: Any, params: Any) -> Any:
            text = await answer(params.name, params.arguments or {})
            return t.CallToolResult(content=[t.TextContent(text=text)])

        async def list_resources(self, ctx: Any, params: Any) -> Any:
            return t.ListResourcesResult(resources=[t.Resource(uri="golden://story", name="story")])

        async def read_resource(self, ctx: Any, params: Any) -> Any:
            if params.uri != "golden://story":
                raise JSONRPCError(INVALID_PARAMS, "no such resource", {"uri": params.uri})
            return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text="Once upon a time.")])

    return Golden(name="golden", version="1.0")


def main(revisions: list[str]) -> None:
    """Serve these revisions, or all."""
    run(*(golden(package) for package in PACKAGES if not revisions or package.Server.revision.id in revisions))


if __name__ == "__main__":
    main(sys.argv[1:])
