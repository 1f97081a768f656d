"""Streams that go on after the application has returned: a small object in place of a request of uvicorn.

A request of uvicorn has a scope, its headers, a task and the coroutines in it. A stream that waits for days needs its
connection only. uvicorn's class of connections uses the object like the request that it replaces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, Final, Protocol

from mcp_runtime.http.asgi import ResponseClient

_AT_ONCE: Final = 512
_SECONDS: Final = 0.05  # Seconds after which work that waits for a client or a store keeps nobody waiting.
Begin = Callable[[], asyncio.Task[Any] | None]


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

    def let_go(self, response: ConnectionResponse) -> None:
        """Go on with the next request: a response is complete."""


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


# Parts of uvicorn's connections that take little memory: very many connections wait, and few are ever full.


class SmallFlowControl:
    """uvicorn's flow control of a connection, with an event only while something waits for the client to read."""

    __slots__ = ("read_paused", "write_paused", "_transport", "_writable")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Create the flow control of a connection that is neither paused nor full."""
        self._transport = transport
        self.read_paused = self.write_paused = False
        self._writable: asyncio.Event | None = None

    async def drain(self) -> None:
        """Wait until the client reads."""
        if self.write_paused:
            self._writable = self._writable or asyncio.Event()
            await self._writable.wait()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Let those wait who write."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """Let those go on who write."""
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None


class SmallPipeline(list[tuple[Any, Any]]):
    """The requests of a connection that wait for a response: few have any. It has the methods of a deque."""

    __slots__ = ()

    def appendleft(self, item: tuple[Any, Any]) -> None:
        """Add the last request."""
        self.insert(0, item)


# Work that begins for very many connections at the same time, of which only some runs at once.


class WorkInTurn:
    """Begins work, up to 512 pieces at once: with thousands of streams, all at once would take the memory of a request
    for each. What takes longer than a moment does not count any more."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._running: set[asyncio.Task[Any]] = set()
        self._waiting: deque[Begin] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, work: Begin) -> None:
        """Call a function that begins work and returns its task, None if it has ended: now, or in its turn."""
        self._waiting.append(work)
        self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting and len(self._running) < _AT_ONCE:
            task = self._waiting.popleft()()
            if task is not None and not task.done():
                self._running.add(task)
                task.add_done_callback(self._on_end)
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._on_timer)

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._begin_next()

    def _on_timer(self) -> None:
        self._timer = None
        self._running.clear()
        self._begin_next()
