"""A transport inside one process: two linked ends, and a client connected to services, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from ..errors import ConnectionClosedError
from ..session.interfaces import Candidate, Connect, Service, Transport
from ..session.serving import serve

Queue = asyncio.Queue[bytes | None]


class MemoryTransport:
    """One end of a pair."""

    close_reason = "the other side ended the conversation"

    def __init__(self, incoming: Queue, outgoing: Queue) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False

    def send(self, message: bytes, more: bool = False) -> None:
        if self._closed:
            raise ConnectionClosedError("the connection is closed")
        self._outgoing.put_nowait(message)

    async def drain(self) -> None:
        """Nothing is ever left to be sent."""

    async def receive(self) -> bytes | None:
        return None if self._closed else await self._incoming.get()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._incoming.put_nowait(None)
            self._outgoing.put_nowait(None)


EndpointT = TypeVar("EndpointT", bound=MemoryTransport)


def linked_transports(kind: type[EndpointT]) -> tuple[EndpointT, MemoryTransport]:
    """Both ends, the first of them of this kind."""
    one, other = Queue(), Queue()
    return kind(one, other), MemoryTransport(other, one)


class _ServedTransport(MemoryTransport):
    """The client's end, which waits for the server to end when it is closed."""

    task: asyncio.Task[None]

    async def close(self) -> None:
        await super().close()
        await asyncio.wait([self.task])


def connect_in_memory(services: Sequence[Candidate[Service]]) -> Connect:
    """Each connection is served by a task of its own."""

    async def start() -> Transport:
        ours, theirs = linked_transports(_ServedTransport)
        ours.task = asyncio.create_task(serve(services, theirs))
        return ours

    return start
