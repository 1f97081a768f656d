"""One connection of HTTP/1.1 to an upstream, and the responses that arrive over it.

https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, NamedTuple

import httptools
import httpx2

_MAX_HEAD: Final = 64 * 1024  # Bytes before the body; httptools has no limit itself.
_MAX_UNREAD: Final = 1 << 20  # Bytes of a body that nobody has read yet, above which reading pauses.
_WITHOUT_BODY: Final = (204, 304)


class SentRequest(NamedTuple):
    """The request of a response, as error messages name it."""

    method: str
    url: str


class WireResponse:
    """A response, whose body arrives after it: what the HTTP transport of clients uses of a response of httpx2.

    `headers` are by lower-case names; `raw` has all of them in their order.
    """

    __slots__ = (
        "status_code",
        "headers",
        "raw",
        "request",
        "_connection",
        "_parts",
        "_unread",
        "_ended",
        "_error",
        "_wake",
    )

    def __init__(
        self, status: int, raw: list[tuple[bytes, bytes]], request: SentRequest, connection: WireConnection
    ) -> None:
        self.status_code = status
        self.raw = raw
        self.request = request
        self._connection = connection
        self.headers: dict[str, str] = {}
        for name, value in raw:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self._parts: deque[bytes] = deque()
        self._unread = 0
        self._ended = False
        self._error = ""
        self._wake: asyncio.Future[None] | None = None

    def feed(self, part: bytes) -> None:
        """Add a part of the body."""
        self._parts.append(part)
        self._unread += len(part)
        if self._unread > _MAX_UNREAD:
            self._connection.pause(True)
        self._wake_up()

    def end(self, error: str = "") -> None:
        """End the body; with an error, it was cut off."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def aiter_raw(self) -> AsyncGenerator[bytes]:
        """Yield the parts of the body. Raises httpx2.ReadError if it is cut off."""
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._unread -= len(part)
                if self._unread <= _MAX_UNREAD:
                    self._connection.pause(False)
                yield part
            if self._error:
                raise httpx2.ReadError(self._error)
            if self._ended:
                return
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    async def aclose(self) -> None:
        """Drop the rest of the body, and with it the connection."""
        if not self._ended:
            self.end("closed")
            self._connection.abort()


class WireConnection(asyncio.Protocol):
    """A connection, with one request at a time. `is_open` is False once it has ended."""

    def __init__(self, release: Callable[[WireConnection, bool], None]) -> None:
        """Create a connection; `release` is called after each response, with whether it can be used again."""
        self._release = release
        self.is_open = False
        self.idle_since = 0.0
        self._transport: Any = None
        self._paused = False
        self._begin_response(None)

    def _begin_response(self, head: asyncio.Future[WireResponse] | None) -> None:
        self._head = head
        self._parser = httptools.HttpResponseParser(self)
        self._raw: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._response: WireResponse | None = None
        self._is_complete = self._keeps_alive = self._ends_with_connection = False

    # ---- of asyncio --------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Read a part of a response. Bytes that no request waits for end the connection: they answer none."""
        if self._head is None:
            return self.abort()
        if self._response is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return self._fail(f"no response of HTTP/1.1: {type(error).__name__}")
        if self._response is None and self._head_bytes > _MAX_HEAD:
            return self._fail("the headers of the response are too long")
        if self._is_complete:
            self._head = None
            self._release(self, self._keeps_alive and self.is_open)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response; a body without a length ends with the connection."""
        self.is_open = False
        if self._response is not None and self._ends_with_connection and exc is None:
            self._response.end()
        else:
            self._fail("the server closed the connection")
        self._release(self, False)

    # ---- of httptools ------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Refuse a second response."""
        if self._is_complete:
            self._keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header; those of a trailer are dropped."""
        if self._response is None and not self._is_complete:
            self._raw.append((name, value))

    def on_headers_complete(self) -> None:
        """Give the response to its request, unless it is an interim one."""
        status = self._parser.get_status_code()
        if self._is_complete or status < 200:
            return
        head = self._head
        names = {name.lower() for name, _ in self._raw}
        has_length = not names.isdisjoint((b"content-length", b"transfer-encoding"))
        self._ends_with_connection = not has_length and status not in _WITHOUT_BODY
        self._response = WireResponse(status, self._raw, self._request, self)
        if head is not None and not head.done():
            head.set_result(self._response)

    def on_body(self, body: bytes) -> None:
        """Give a part of the body to the response."""
        if self._response is not None and not self._is_complete:
            self._response.feed(body)

    def on_message_complete(self) -> None:
        """End the response; after an interim one, wait for another."""
        if self._response is None:
            self._raw = []
        elif not self._is_complete:
            self._is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()
            self._response.end()

    # ---- of requests -------------------------------------------------------------------------------------------------

    async def send(self, data: bytes, request: SentRequest) -> WireResponse:
        """Send the bytes of a request, and return its response. Raises httpx2.ReadError."""
        head: asyncio.Future[WireResponse] = asyncio.get_running_loop().create_future()
        self._begin_response(head)
        self._request = request
        self._transport.write(data)
        try:
            return await head
        except asyncio.CancelledError:
            self.abort()
            raise

    def pause(self, paused: bool) -> None:
        """Read no more, or read again."""
        if paused != self._paused and self.is_open:
            self._paused = paused
            self._transport.pause_reading() if paused else self._transport.resume_reading()

    def _fail(self, reason: str) -> None:
        head, response = self._head, self._response
        self._head = None
        if response is not None:
            response.end(reason)
        elif head is not None and not head.done():
            head.set_exception(httpx2.ReadError(reason))
        self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()
