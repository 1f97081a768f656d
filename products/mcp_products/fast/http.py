"""uvicorn's protocols of connections with deadlines: for heads, for bodies, and for the client to read responses.

RFC 9110, 15.5.9: https://www.rfc-editor.org/rfc/rfc9110#status.408
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any, Final, cast

from mcp_products.hosting.held_responses import ConnectionResponse, SmallFlowControl, SmallPipeline, write_chunk
from mcp_products.hosting.limits import ServerConnections, key_of_peer
from mcp_products.hosting.uvicorn_protocols import RefusedConnection
from mcp_runtime.http.asgi import (
    DISCONNECTIONS,
    HELD_RESPONSES,
    RESPONSE_PARTS,
    WHOLE_BODIES,
    WHOLE_RESPONSES,
    ResponseClient,
)
from mcp_runtime.http.headers import Raw

from . import switches

# Whole messages of uvicorn's connections with httptools: requests that have arrived, responses and parts of them.
#
# By way of ASGI, a small response is two messages, and two writes to the socket, each of which wakes the client. These
# functions do the same in one. To notice that a client disconnects takes a task that receives; here it is a future. A
# stream that waits needs no task at all, see `held_responses`. What is not ordinary they leave to uvicorn: `http.asgi`
# calls them, and falls back.

_MODULE: Final = "uvicorn.protocols.http.httptools_impl"
_STATUS_LINES: Final = {200: b"HTTP/1.1 200 OK\r\n", 202: b"HTTP/1.1 202 Accepted\r\n"}
# Default headers with these need uvicorn's own checks.
_FRAMING: Final = (b"connection", b"content-length", b"transfer-encoding")
_MAX_WHOLE: Final = 64 * 1024  # Bytes of a body that are worth a copy.
_MAX_HEAD: Final = 64 * 1024  # Bytes; h11 has such a limit itself.
_MAX_PIPELINE: Final = 100  # Requests that a client has sent before the response to the first.
_PARSERS: Final = ("uvicorn.protocols.http.h11_impl", "uvicorn.protocols.http.httptools_impl")
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_PHRASES: Final = {408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class _LastHeaders:
    """Headers as bytes that are the same object in most responses, such as uvicorn's, a list for each second."""

    def __init__(self) -> None:
        self._headers: Raw | None = None
        self._lines: bytes | None = None

    def lines(self, headers: Raw) -> bytes | None:
        """Return the lines of these headers; None if uvicorn has to look at them."""
        if headers is not self._headers:
            self._headers = headers
            self._lines = _lines(headers)
        return self._lines


def _lines(headers: Raw) -> bytes | None:
    lines = [b"%b: %b" % header for header in headers]
    if any(name.lower() in _FRAMING for name, _ in headers) or any(len(line.splitlines()) != 1 for line in lines):
        return None
    return b"".join(line + b"\r\n" for line in lines)


_DEFAULT_HEADERS: Final = _LastHeaders()
_STREAM_HEADERS: Final = _LastHeaders()


def use_whole_messages(modules: Collection[str]) -> bool:
    """Let `http.asgi` read and write whole messages, if a class of connections comes from httptools' module of uvicorn;
    return whether it does."""
    if _MODULE not in modules:
        return False
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    WHOLE_BODIES[RequestResponseCycle] = take_body
    WHOLE_RESPONSES[RequestResponseCycle] = write_response
    RESPONSE_PARTS[RequestResponseCycle] = write_part
    RESPONSE_PARTS[ConnectionResponse] = write_part
    DISCONNECTIONS[RequestResponseCycle] = disconnection_of
    HELD_RESPONSES[RequestResponseCycle] = hold_response
    return True


def take_body(cycle: Any) -> bytes | None:
    """Return the body of a request that has arrived as a whole; None if uvicorn has to be waited for."""
    if cycle.more_body or cycle.disconnected or cycle.response_complete or cycle.waiting_for_100_continue:
        return None
    body = bytes(cycle.body)
    cycle.body = bytearray()
    cycle.flow.resume_reading()
    cycle.message_event.clear()
    return body


def write_response(cycle: Any, status: int, body: bytes) -> bool:
    """Write a response without further headers; a body is JSON. Return False if uvicorn has to write it."""
    line = _STATUS_LINES.get(status)
    if line is None or cycle.response_started or cycle.disconnected or not cycle.keep_alive or len(body) > _MAX_WHOLE:
        return False
    if cycle.access_log or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    if (lines := _DEFAULT_HEADERS.lines(cycle.default_headers)) is None:
        return False
    kind = b"content-type: application/json\r\n" if body else b""
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write(b"%b%bcontent-length: %d\r\n%b\r\n%b" % (line, lines, len(body), kind, body))
    cycle.message_event.set()
    cycle.on_response()
    return True


def write_part(cycle: Any, headers: Raw | None, part: bytes, more: bool) -> bool:
    """Write a part of a response with status 200, with its head if there are headers, and with its end without `more`.

    Return False if uvicorn has to write it.
    """
    if cycle.disconnected or cycle.flow.write_paused or len(part) > 2 * _MAX_WHOLE:
        return False
    head = b""
    if headers is not None:
        if cycle.response_started or not cycle.keep_alive or cycle.access_log or cycle.scope["method"] == "HEAD":
            return False
        default, own = _DEFAULT_HEADERS.lines(cycle.default_headers), _STREAM_HEADERS.lines(headers)
        if default is None or own is None:
            return False
        head = b"%b%b%btransfer-encoding: chunked\r\n\r\n" % (_STATUS_LINES[200], default, own)
        cycle.response_started = cycle.chunked_encoding = True
        cycle.waiting_for_100_continue = False
    elif not cycle.chunked_encoding or cycle.response_complete:
        return False
    write_chunk(cycle, head, part, more)
    return True


def hold_response(cycle: Any, client: ResponseClient) -> ConnectionResponse | None:
    """Let a stream go on after the application has returned; None if uvicorn has to know the request."""
    connection: Any = getattr(cycle.on_response, "__self__", None)
    if not cycle.chunked_encoding or cycle.disconnected or cycle.response_complete or not hasattr(connection, "hold"):
        return None
    held: ConnectionResponse | None = connection.hold(cycle, client)
    return held


def disconnection_of(cycle: Any) -> asyncio.Future[None] | None:
    """Return a future that is done when the client of a request disconnects; None if only uvicorn knows."""
    connection: Any = getattr(cycle.on_response, "__self__", None)
    if cycle.more_body or cycle.disconnected or cycle.response_complete or not hasattr(connection, "disconnection"):
        return None
    cycle.flow.resume_reading()
    future: asyncio.Future[None] = connection.loop.create_future()
    connection.disconnection = future
    return future


class ObservedProtocol(asyncio.Protocol):
    """A connection that is counted, and cut if its client does not read. The base of uvicorn's class for it."""

    server_connections: ServerConnections
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and refuse it if there are too many."""
        super().connection_made(transport)
        key, is_local = key_of_peer(transport.get_extra_info("peername"))
        self.client_key = key
        self.is_local = is_local
        self._progress_at = asyncio.get_running_loop().time()  # Seconds; when the client last did what is waited for.
        self._waits_for: object = None
        self._unsent = 0  # Bytes, when they were last looked at.
        if not self.server_connections.add(self):
            self._write_refusal(503, "retry-after: 1\r\n")  # Nothing was begun.
            RefusedConnection.close(self.transport, self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        self.server_connections.remove(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Count the bytes that wait for the client."""
        super().pause_writing()
        self.server_connections.hold(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Count them no longer."""
        self.server_connections.hold(self, 0)
        self._unsent = 0
        super().resume_writing()

    def is_idle(self) -> bool:
        """Return True if no request has begun; without uvicorn's own parsers, this is unknown."""
        return False

    def look(self, now: float) -> None:
        """Cut the connection if its client has read nothing for too long, or end it if a request is late."""
        limits, unsent = self.server_connections.limits, self.transport.get_write_buffer_size()
        if unsent or self.transport.is_closing():
            is_progress = not self._unsent or unsent < self._unsent
            self._unsent = unsent
            if is_progress and unsent:
                self._progress_at = now
                self._waits_for = None
            elif now - self._progress_at >= limits.write_timeout:
                self.abort()
            return
        self._unsent = 0
        if (late := self._late_after(now)) is not None and now - self._progress_at >= late:
            self._end_late()

    def abort(self) -> None:
        """Cut the connection, and drop what is not sent, in the buffers of the system as well."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _late_after(self, now: float) -> float | None:
        """Return the seconds that the client has for what is waited for; None if nothing is."""
        self._progress_at = now
        return None

    def _end_late(self) -> None:
        self.transport.close()

    def _refuse(self, status: int) -> None:
        """Send a response without a body, and close the connection."""
        self._write_refusal(status)
        self.transport.close()

    def _write_refusal(self, status: int, fields: str = "") -> None:
        head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\n{fields}content-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode("ascii"))


class ObservedHTTPProtocol(ObservedProtocol):
    """The same for a parser whose state is known: heads and bodies have deadlines as well."""

    # uvicorn's attributes. `cycle` is the last request, if it is known, and `scope` that of the head which is read.
    cycle: Any
    scope: Any
    flow: Any
    access_log: bool
    access_logger: logging.Logger
    timeout_keep_alive_task: asyncio.TimerHandle | None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        self._reads = self._head_bytes = 0
        super().connection_made(transport)
        # uvicorn writes a line for each request, even if the level of its logger drops them all.
        self.access_log = self.access_log and self.access_logger.isEnabledFor(logging.INFO)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; refuse a head that is too long, and more requests than are served."""
        self._reads += 1
        super().data_received(data)
        cycle = self.cycle
        if self._waits_for_request() if cycle is None else self.scope is cycle.scope:  # The last head is complete.
            self._head_bytes = 0
            if self.flow.read_paused and len(getattr(self, "pipeline", ())) > _MAX_PIPELINE:
                self.abort()
            return
        self._head_bytes += len(data)
        if self._head_bytes > _MAX_HEAD and not self.transport.is_closing():
            self._refuse(431)

    def handle_websocket_upgrade(self, *event: Any) -> None:
        """Leave the connection to another protocol, which is not observed."""
        self.server_connections.remove(self)
        cast(Any, super()).handle_websocket_upgrade(*event)

    def is_idle(self) -> bool:
        """Return True if no request has begun, or a response is complete and nothing has come since."""
        cycle = self.cycle
        return cycle is None or (cycle.response_complete and self._waits_for_request())

    def _waits_for_request(self) -> bool:
        """Return True if a response is complete, and nothing has come since."""
        return self.timeout_keep_alive_task is not None

    def _late_after(self, now: float) -> float | None:
        """Return the seconds for a whole head, or for the next part of a body; None while a response is made."""
        cycle, limits = self.cycle, self.server_connections.limits
        if cycle is None or cycle.response_complete:
            # uvicorn ends an idle connection itself. After an early response, the rest of its body comes first.
            waits_for: object = None if self._waits_for_request() else ("head", cycle)
            seconds = limits.body_timeout if cycle is not None and cycle.more_body else limits.head_timeout
        else:
            is_body = cycle.more_body and not self.flow.read_paused and not cycle.waiting_for_100_continue
            waits_for = ("body", cycle, self._reads) if is_body else None
            seconds = limits.body_timeout
        if waits_for is None or waits_for != self._waits_for:
            self._progress_at = now if self._reads else self._progress_at
            self._waits_for = waits_for
        return None if waits_for is None else seconds

    def _end_late(self) -> None:
        cycle = self.cycle
        if not self._reads or (cycle is not None and not cycle.response_complete and cycle.response_started):
            return self.abort()
        self._refuse(408)


class QuickHTTPProtocol(ObservedHTTPProtocol):
    """The same for httptools: a request that is complete is served at once, up to where it waits for something.

    uvicorn begins requests in the next iteration of the event loop. If the body has not come with the head, it often
    comes before that: so the iteration after it begins a request that is incomplete.
    """

    # uvicorn's attributes.
    config: Any
    headers: list[tuple[bytes, bytes]] | None
    loop: asyncio.AbstractEventLoop
    pipeline: Any
    server_state: Any
    tasks: set[asyncio.Task[None]]
    timeout_keep_alive: float
    url: bytes
    _idle_since: float | None = None  # Seconds; None unless a response is complete and nothing has come since.
    _unstarted: tuple[Any, Any] | None = None  # A request that is being read, and the application.
    # Gets its result when the client disconnects, if the request that is being served waits for it.
    disconnection: asyncio.Future[None] | ConnectionResponse | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self.flow = SmallFlowControl(self.transport)
        self.pipeline = SmallPipeline()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request, and serve it if it is complete."""
        super().data_received(data)
        if self._unstarted is None:
            return
        cycle, app = self._unstarted
        if cycle.more_body:
            self.loop.call_soon(self.loop.call_soon, self._start_unstarted)
            return
        self._unstarted = None
        self._run(cycle.run_asgi(app))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the timer, and tell the request that is being served."""
        super().connection_lost(exc)
        if self.disconnection is not None and not self.disconnection.done():
            self.disconnection.set_result(None)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run a coroutine at once up to its first wait; return its task, or None if it has ended."""
        task = self.server_connections.starter.start(work)
        if task is not None and not task.done():
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return task

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what a function returns, when it is its turn."""
        self.server_connections.streams.begin(lambda: self._run(work()))

    def hold(self, cycle: Any, client: ResponseClient) -> ConnectionResponse | None:
        """Replace the object of a request whose response goes on; None if more of the client has come meanwhile."""
        if self.cycle is not cycle or self.scope is not cycle.scope or cycle.more_body:
            return None
        cycle.response_complete = True  # uvicorn has nothing more to do when the application returns.
        self.cycle = self.disconnection = held = ConnectionResponse(self, client, cycle.keep_alive)
        self.scope = held.scope
        self.headers = None
        self.url = b""
        return held

    def let_go(self, response: ConnectionResponse) -> None:
        """Go on with the next request: a response is complete."""
        if self.disconnection is response:
            self.disconnection = None
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for one; uvicorn calls this."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cast(Any, super())._start_asgi_task(*self.pipeline.pop())
            return
        if (cycle := self.cycle) is not None and self.scope is cycle.scope and not cycle.more_body:
            self.cycle = self.scope = self.headers = None  # Frees memory.
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_after(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it has waited for a request for too long."""
        self.timeout_keep_alive_task = None
        if self._idle_since is None:
            return
        remaining = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if remaining > 0:
            self._look_after(remaining)
        else:
            cast(Any, super()).timeout_keep_alive_handler()

    def _look_after(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _waits_for_request(self) -> bool:
        return self._idle_since is not None

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begin a request later, when what has come with its head is read; uvicorn calls this."""
        if self.config.reset_contextvars:
            cast(Any, super())._start_asgi_task(cycle, app)
        else:
            self._unstarted = cycle, app

    def _start_unstarted(self) -> None:
        if self._unstarted is not None:
            unstarted = self._unstarted
            self._unstarted = None
            cast(Any, super())._start_asgi_task(*unstarted)


def observed(base: type[asyncio.Protocol], connections: ServerConnections) -> type[asyncio.Protocol]:
    """Return uvicorn's class of connections with the limits of a server.

    Heads and bodies have deadlines with h11 and httptools; with other parsers, only the number of connections and the
    bytes that are not read are limited.
    """
    modules = [parent.__module__ for parent in base.__mro__]
    mixin: type[ObservedProtocol] = ObservedProtocol
    if any(module in _PARSERS for module in modules):
        is_quick = switches.ENABLED and use_whole_messages(modules)
        mixin = QuickHTTPProtocol if is_quick else ObservedHTTPProtocol
    return type(f"Observed{base.__name__}", (mixin, base), {"server_connections": connections})
