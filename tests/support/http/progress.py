"""A server whose tool reports progress and waits where it is to, calls of it, and the ids of its responses."""

from __future__ import annotations

import asyncio
from typing import Any

from support.endpoints import Rev, server_of
from support.http.asgi_client import Answer

EVENTS = "text/event-stream"
CHANGES = {"tools": {"listChanged": True}}


def served(rev: Rev, go: asyncio.Event | None = None, ended: asyncio.Event | None = None) -> Any:
    """A server whose tool tells its progress where it is asked to, and waits where it is to."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        if params.name == "wait" and go is not None:
            await go.wait()
        if ended is not None:
            ended.set()
        return rev.text(params.name)

    return server_of(rev, call_tool=call_tool, capabilities=CHANGES)


def call(rev: Rev, id: Any = 1, name: str = "x", loud: bool = True) -> dict[str, Any]:
    meta = {"_meta": {"progressToken": f"t{id}"}} if loud else {}
    return rev.request(id, "tools/call", {"name": name, **meta})


def ids(answer: Answer) -> list[Any]:
    return [message["id"] for message in answer.json_messages if "id" in message]
