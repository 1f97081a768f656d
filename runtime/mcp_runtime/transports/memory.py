"""Two linked transports in one process: what one sends, the other receives."""

from __future__ import annotations

import asyncio

from ..errors import NotConnected

Queue = asyncio.Queue[bytes | None]


class MemoryTransport:
    """One end of a pair."""

    def __init__(self, incoming: Queue, outgoing: Queue) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False

    async def send(self, message: bytes) -> None:
        if self._closed:
            raise NotConnected("the connection is closed")
        self._outgoing.put_nowait(message)

    async def receive(self) -> bytes | None:
        return None if self._closed else await self._incoming.get()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._incoming.put_nowait(None)
            self._outgoing.put_nowait(None)


def linked() -> tuple[MemoryTransport, MemoryTransport]:
    """Both ends."""
    one, other = Queue(), Queue()
    return MemoryTransport(one, other), MemoryTransport(other, one)
