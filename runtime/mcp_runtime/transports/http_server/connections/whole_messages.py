"""Whole messages of uvicorn's connections with httptools: requests that have arrived, responses and parts of them.

By way of ASGI, a small response is two messages, and two writes to the socket, each of which wakes the client. These
functions do the same in one. To notice that a client disconnects takes a task that receives; here it is a future. A
stream that waits needs no task at all, see `held_responses`. What is not ordinary they leave to uvicorn: `http.asgi`
calls them, and falls back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from ....http.asgi import (
    DISCONNECTIONS,
    HELD_RESPONSES,
    RESPONSE_PARTS,
    WHOLE_BODIES,
    WHOLE_RESPONSES,
    ResponseClient,
)
from ....http.headers import Raw
from .held_responses import ConnectionResponse, write_chunk

_MODULE: Final = "uvicorn.protocols.http.httptools_impl"
_STATUS_LINES: Final = {200: b"HTTP/1.1 200 OK\r\n", 202: b"HTTP/1.1 202 Accepted\r\n"}
# Default headers with these need uvicorn's own checks.
_FRAMING: Final = (b"connection", b"content-length", b"transfer-encoding")
_MAX_WHOLE: Final = 64 * 1024  # Bytes of a body that are worth a copy.


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
