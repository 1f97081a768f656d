"""Whole messages of uvicorn's connections with httptools: a request that has arrived, and a response that is complete.

By way of ASGI, a small response is two messages, and two writes to the socket, each of which wakes the client. These
functions do the same in one. What is not ordinary they leave to uvicorn: `http.asgi` calls them, and falls back.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from ....http.asgi import WHOLE_BODIES, WHOLE_RESPONSES

_MODULE: Final = "uvicorn.protocols.http.httptools_impl"
_STATUS_LINES: Final = {200: b"HTTP/1.1 200 OK\r\n", 202: b"HTTP/1.1 202 Accepted\r\n"}
# Default headers with these need uvicorn's own checks.
_FRAMING: Final = (b"connection", b"content-length", b"transfer-encoding")
_MAX_WHOLE: Final = 64 * 1024  # Bytes of a body that are worth a copy.

_Headers = list[tuple[bytes, bytes]]


class _DefaultHeaders:
    """uvicorn's headers of all responses as bytes: a list that it replaces each second, for the date."""

    def __init__(self) -> None:
        self._headers: _Headers | None = None
        self._lines: bytes | None = None

    def lines(self, headers: _Headers) -> bytes | None:
        """Return the lines of these headers; None if uvicorn has to look at them."""
        if headers is not self._headers:
            self._headers, self._lines = headers, _lines(headers)
        return self._lines


def _lines(headers: _Headers) -> bytes | None:
    lines = [b"%b: %b" % header for header in headers]
    if any(name.lower() in _FRAMING for name, _ in headers) or any(len(line.splitlines()) != 1 for line in lines):
        return None
    return b"".join(line + b"\r\n" for line in lines)


_DEFAULT_HEADERS: Final = _DefaultHeaders()


def use_whole_messages(modules: Collection[str]) -> bool:
    """Let `http.asgi` read and write whole messages, if a class of connections comes from httptools' module of uvicorn;
    return whether it does."""
    if _MODULE not in modules:
        return False
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    WHOLE_BODIES[RequestResponseCycle] = take_body
    WHOLE_RESPONSES[RequestResponseCycle] = write_response
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
