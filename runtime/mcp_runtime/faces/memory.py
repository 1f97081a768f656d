"""Server objects go in, a way to connect a client to them in the same process comes out; for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..seams import Transport
from ..transports.memory import MemoryTransport, linked_transports
from .client import Connect
from .server import BaseServer, serve


class _ServedTransport(MemoryTransport):
    """The client's end, which waits for the server to end when it is closed."""

    task: asyncio.Task[None]

    async def close(self) -> None:
        await super().close()
        await asyncio.wait([self.task])


def connect_in_memory(servers: Sequence[BaseServer]) -> Connect:
    """Each connection is served by a task of its own."""

    async def start() -> Transport:
        ours, theirs = linked_transports(_ServedTransport)
        ours.task = asyncio.create_task(serve(servers, theirs))
        return ours

    return start
