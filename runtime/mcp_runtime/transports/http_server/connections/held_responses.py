"""Streams that go on after the application has returned: a small object in place of a request of uvicorn.

A request of uvicorn has a scope, its headers, a task and the coroutines in it. A stream that waits for days needs its
connection only. uvicorn's class of connections uses the object like the request that it replaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, Final, Protocol

from ....http.asgi import ResponseClient


def write_chunk(cycle: Any, head: bytes, part: bytes, more: bool) -> None:
    """Write a head, a part of a body in chunks, and its end without `more`."""
    chunk = b"%x\r\n%b\r\n" % (len(part), part) if part else b""
    cycle.transport.write(b"%b%b%b" % (head, chunk, b"" if more else b"0\r\n\r\n"))
    if not more:
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:  # The server has begun to end meanwhile.
            cycle.transport.close()
        cycle.on_response()


class HoldingConnection(Protocol):
    """A connection of uvicorn, as a held response uses it."""

    transport: asyncio.Transport
    flow: Any

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what a function returns, when it is its turn."""
        ...

    def let_go(self, response: ConnectionResponse) -> None:
        """Go on with the next request: a response is complete."""
        ...


class ConnectionResponse:
    """A response in chunks whose head is sent: the part of uvicorn's object for a request that is still needed."""

    __slots__ = ("disconnected", "keep_alive", "_client", "_connection")

    # uvicorn's attributes of a request whose response goes on.
    access_log: Final = False
    chunked_encoding: Final = True
    message_event: Final = asyncio.Event()  # Nobody waits for it.
    more_body: Final = False
    response_started: Final = True
    scope: Final[dict[str, Any]] = {}
    waiting_for_100_continue: Final = False

    def __init__(self, connection: HoldingConnection, client: ResponseClient, keep_alive: bool) -> None:
        """Create the rest of a response; with `keep_alive`, the connection stays open after it."""
        self._connection = connection
        self.keep_alive = keep_alive
        self._client: ResponseClient | None = client
        self.disconnected = False

    @property
    def transport(self) -> asyncio.Transport:
        """What the response is written to."""
        return self._connection.transport

    @property
    def flow(self) -> Any:
        """Uvicorn's flow control of the connection."""
        return self._connection.flow

    @property
    def response_complete(self) -> bool:
        """True when the end of the response has been sent."""
        return self._client is None and not self.disconnected

    @response_complete.setter
    def response_complete(self, is_complete: bool) -> None:
        if is_complete:
            self._client = None

    def on_response(self) -> None:
        """Let the connection go on: the response is complete."""
        self._connection.let_go(self)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the body when the client reads."""
        if not self.disconnected:
            await self.flow.drain()
        if not self.disconnected and not self.response_complete:
            write_chunk(self, b"", message.get("body", b""), message.get("more_body", False))

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what sends more, when it is its turn."""
        self._connection.begin(work)

    def abort(self) -> None:
        """Close the connection: the response cannot be completed."""
        self._connection.transport.close()

    def done(self) -> bool:
        """Return True if nothing waits for the client to disconnect."""
        return self._client is None

    def set_result(self, result: None) -> None:
        """Note that the client has disconnected, for what sends the response."""
        client = self._client
        self._client = None
        self.disconnected = True
        if client is not None:
            client.on_disconnect()
