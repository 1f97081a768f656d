"""A server of every revision whose tools are slow, large, talkative or broken; it is run as a process of its own.

`python http_stress.py h11|httptools [PORT]` serves on a port, says in its log which, and ends on SIGTERM. With `stdio`
it serves whoever has started it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from itertools import count
from typing import Any

from mcp_generated import REVISIONS
from mcp_runtime.bindings.server import run
from mcp_runtime.transports.http_server.app import HTTPLimits

CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}}
WITHOUT_ARGUMENTS = ("big", "wait", "change", "status", "raise", "endless")
SECRET = "hunter2"


def tool(t: Any, name: str, **properties: Any) -> Any:
    return t.Tool.model_validate({"name": name, "inputSchema": {"type": "object", "properties": properties}})


class Counts:
    """How many handlers wait, and how many were cancelled while they did; what is waited for together has a name."""

    def __init__(self) -> None:
        self.waiting = self.cancelled = self.echoed = 0
        self.barriers: dict[str, asyncio.Barrier] = {}

    def shown(self) -> str:
        blocks = sys.getallocatedblocks()
        return json.dumps(
            {"waiting": self.waiting, "cancelled": self.cancelled, "echoed": self.echoed, "blocks": blocks}
        )

    async def meet(self, where: str, many: int) -> None:
        """Nobody goes on before all are there."""
        await self.barriers.setdefault(where, asyncio.Barrier(many)).wait()

    async def wait(self, telling: Any = None) -> str:
        """Wait for ever, and tell of progress meanwhile where there is whom to tell."""
        self.waiting += 1
        try:
            for step in count(1) if telling else ():
                await telling.progress(step)
                await asyncio.sleep(0.01)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return "never"


def served(id: str, counts: Counts) -> Any:
    """A server of one revision."""
    package = __import__(f"mcp_generated.{REVISIONS[id]}", fromlist=["Server"])
    t = package.types

    class Served(package.Server):  # type: ignore[misc, name-defined]
        async def list_tools(self, ctx: Any, params: Any) -> Any:
            number, text = {"type": "integer"}, {"type": "string"}
            tools = [tool(t, "echo", text=text), tool(t, "steps", steps=number, size=number)]
            tools += [tool(t, "meet", where=text, many=number)]
            return t.ListToolsResult(tools=[*tools, *(tool(t, name) for name in WITHOUT_ARGUMENTS)])

        async def call_tool(self, ctx: Any, params: Any) -> Any:
            text = await self.do(ctx, params.name, params.arguments or {})
            return t.CallToolResult(content=[t.TextContent(text=text)])

        async def do(self, ctx: Any, name: str, arguments: dict[str, Any]) -> str:
            match name:
                case "steps":  # Each step is told as progress, with padding of a size.
                    for step in range(1, arguments["steps"] + 1):
                        await ctx.progress(step)
                        if step % 7 == 0:
                            await asyncio.sleep(0)
                case "endless":
                    return await counts.wait(ctx)
                case "meet":
                    await counts.meet(arguments["where"], arguments["many"])
                case "big":
                    return "x" * (3 << 20)
                case "wait":
                    return await counts.wait()
                case "change":
                    await self.notify_tool_list_changed()
                case "raise":
                    raise RuntimeError(f"{SECRET} in {__file__}")
                case "status":
                    return counts.shown()
                case _:
                    counts.echoed += 1
            return str(arguments.get("text", name))

    return Served(name="served", version="1", capabilities=CAPABILITIES)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    servers = [served(id, counts) for counts in [Counts()] for id in REVISIONS]
    if sys.argv[1] == "stdio":
        run(*servers)
        sys.exit()
    run(
        *servers,
        transport="http",
        port=int(sys.argv[2]) if len(sys.argv) > 2 else 0,
        legacy_sse=True,
        limits=HTTPLimits(body_timeout=2.0),
        uvicorn={"http": sys.argv[1]},
    )
