"""A server whose tool answers with its own name, waits or fails, and a call of it."""

from __future__ import annotations

from typing import Any

from support.endpoints import Rev, server_of


def echo(rev: Rev, **more: Any) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "wait":
            await ctx.state.wait()
        if params.name == "fail":
            raise RuntimeError("hunter2 in /etc/secret")
        return rev.text(params.name)

    return server_of(rev, call_tool=call_tool, **more)


def call(rev: Rev, name: str = "echo", id: Any = 1, **more: Any) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": name, **more})
