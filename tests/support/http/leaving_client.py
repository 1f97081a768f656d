"""A request whose client leaves at one of its waits, to an ASGI application in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.cancelled_steps import PATIENCE, CancelledAt, cancel_this_task
from support.endpoints import Rev
from support.http.asgi_client import Web


class LeavingClient:
    """One POST, whose client may leave at a wait of it."""

    def __init__(self, app: Any, rev: Rev, session: str | None, number: int, tool: str = "echo") -> None:
        web = Web(app, rev)
        web.session = session
        scope, body = web.prepared(body=rev.request(number, "tools/call", call(f"text {number}", tool)))
        self.scope = scope
        self.body = body
        self.app = app
        self.received = b""
        self.left = asyncio.Event()
        self._has_body = False

    async def run(self) -> None:
        await self.app(self.scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if not self._has_body:
            self._has_body = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.received += message.get("body", b"")


def call(text: str, tool: str = "echo") -> dict[str, Any]:
    return {"name": tool, "arguments": {"text": text}}


async def left_at(number: int, client: LeavingClient, way: str) -> bool:
    """Run a request that is left at a wait; return False if it has fewer."""
    act: Callable[[], None] = cancel_this_task if way == "cancelled" else client.left.set
    leaving = CancelledAt(client.run(), number, act)

    async def run() -> None:
        await leaving

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.done(), f"a request that was {way} at its wait {number} has not ended"
    if not task.cancelled():
        task.exception()
    return leaving.waits >= number


async def is_answered(app: Any, rev: Rev, session: str | None, number: int, tool: str = "echo") -> bool:
    client = LeavingClient(app, rev, session, number, tool)
    async with asyncio.timeout(PATIENCE):
        await client.run()
    return f"text {number}".encode() in client.received
