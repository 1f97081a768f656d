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
    """One of two linked ends: each receives the messages that the other sends."""

    close_reason = "the peer closed the connection"

    def __init__(self, incoming: Queue, outgoing: Queue) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False

    def send(self, message: bytes, more: bool = False) -> None:
        """Put a message into the queue of the other end. Raises ConnectionClosedError."""
        if self._closed:
            raise ConnectionClosedError("the connection is closed")
        self._outgoing.put_nowait(message)

    async def drain(self) -> None:
        """Return at once: messages are not buffered."""

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the connection."""
        return None if self._closed else await self._incoming.get()

    async def close(self) -> None:
        """Close both ends."""
        if not self._closed:
            self._closed = True
            self._incoming.put_nowait(None)
            self._outgoing.put_nowait(None)


EndpointT = TypeVar("EndpointT", bound=MemoryTransport)


def linked_transports(kind: type[EndpointT]) -> tuple[EndpointT, MemoryTransport]:
    """Return two linked ends; the first one is of this class."""
    first, second = Queue(), Queue()
    return kind(first, second), MemoryTransport(second, first)


class _ServedTransport(MemoryTransport):
    """The client's end, whose `close` waits until the server has ended. It raises what a lifespan has raised."""

    task: asyncio.Task[None]

    async def close(self) -> None:
        await super().close()
        await asyncio.wait([self.task])
        if not self.task.cancelled() and (error := self.task.exception()) is not None:
            raise error


def connect_in_memory(services: Sequence[Candidate[Service]]) -> Connect:
    """Return a function that connects a client to services; a task serves each connection."""

    async def start() -> Transport:
        client_end, server_end = linked_transports(_ServedTransport)
        client_end.task = asyncio.create_task(serve(services, server_end))
        return client_end

    return start
