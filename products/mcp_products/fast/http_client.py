"""The requests of a client that need nothing of httpx2, over connections of HTTP/1.1 of their own (ADR 0055).

https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.request import getproxies

import httpx2

from mcp_runtime.http.outgoing import default_tls
from mcp_runtime.transports.http_client.connection import ClientResponse, HTTPOptions

from .switches import ENABLED as SWITCHED_ON

ENABLED: Final = SWITCHED_ON and find_spec("httptools") is not None  # Other extras than `http` have httpx2 as well.

if TYPE_CHECKING or ENABLED:
    import httptools

_MAX_HEAD: Final = 64 * 1024  # Bytes before the body; httptools has no limit itself.
_MAX_UNREAD: Final = 1 << 20  # Bytes of a body that nobody has read yet, above which reading pauses.
_WITHOUT_BODY: Final = (204, 304)
_MAX_IDLE: Final = 128  # Connections that wait for a request.
_IDLE_SECONDS: Final = 4.0  # Seconds after which such a connection is not used: servers close them after 5.
_OWN_HEADERS: Final = frozenset(("host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"))


class SentRequest(NamedTuple):
    """The request of a response, as error messages name it."""

    method: str
    url: str


class WireResponse:
    """A response, whose body arrives after it: a `ClientResponse`.

    `headers` are by lower-case names; `raw` has all of them in their order.
    """

    __slots__ = ("status_code", "headers", "raw", "request", "_connection", "_parts", "_unread",
                 "_ended", "_error", "_wake")  # fmt: skip

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
            return self._fail(f"no response of HTTP/1.1: {type(error).__name__}", httpx2.RemoteProtocolError)
        if self._response is None and self._head_bytes > _MAX_HEAD:
            return self._fail("the headers of the response are too long", httpx2.RemoteProtocolError)
        if self._is_complete:
            self._head = None
            self._release(self, self._keeps_alive and self.is_open)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response; a body without a length ends with the connection."""
        self.is_open = False
        if self._response is not None and self._ends_with_connection and exc is None:
            self._response.end()
        else:
            error = httpx2.RemoteProtocolError if exc is None else httpx2.ReadError
            self._fail("the server closed the connection", error)
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
        """Send the bytes of a request, and return its response. Raises the errors of httpx2."""
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

    def _fail(self, reason: str, error: type[httpx2.TransportError] = httpx2.ReadError) -> None:
        head, response = self._head, self._response
        self._head = None
        if response is not None:
            response.end(reason)
        elif head is not None and not head.done():
            head.set_exception(error(reason))
        self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


class PlainRequest:
    """A POST that needs nothing of httpx2. `extensions` are not sent."""

    __slots__ = ("method", "url", "headers", "content", "seconds", "extensions")

    def __init__(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, seconds: float | None
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.content = content
        self.seconds = seconds
        self.extensions: dict[str, Any] = {}


class PlainHTTPClient:
    """Takes the place of a client of httpx2: it sends plain requests to one URL itself, and passes on all others.

    httpx2 sends requests with a login, over a proxy, after a redirect, and once the server has set a cookie.
    """

    def __init__(self, client: httpx2.AsyncClient, url: str, options: HTTPOptions) -> None:
        """Create a client for the requests to a URL, before another one."""
        self._client = client
        self._url = url
        self._options = options
        parsed = httpx2.URL(url)
        self._host = parsed.raw_host.decode("ascii")
        self._port = parsed.port
        self._is_secure = parsed.scheme == "https"
        agent = client.headers.get("user-agent", "")
        target, authority = parsed.raw_path.decode("ascii"), parsed.netloc.decode("ascii")
        self._start = f"POST {target} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: {agent}\r\n"
        own = not _OWN_HEADERS.isdisjoint(map(str.lower, options.headers))
        self._is_plain = not (own or options.auth or options.proxy or parsed.userinfo or getproxies())
        self._tls: ssl.SSLContext | None = None
        self._idle: list[WireConnection] = []
        self._all: set[WireConnection] = set()

    def build_request(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None, timeout: httpx2.Timeout
    ) -> PlainRequest | httpx2.Request:
        """Return a request for `send`."""
        if self._is_plain and method == "POST" and url == self._url and content is not None:
            return PlainRequest(method, url, headers, content, timeout.read)
        return self._client.build_request(method, url, headers=headers, content=content, timeout=timeout)

    async def send(self, request: PlainRequest | httpx2.Request, **settings: Any) -> ClientResponse:
        """Send a request, and return its response. Raises the errors of httpx2."""
        if not isinstance(request, PlainRequest):
            return await self._client.send(request, **settings)
        data, sent = self._encoded(request.headers, request.content), SentRequest(request.method, request.url)
        try:
            if request.seconds is None:
                response = await (await self._connection()).send(data, sent)
            else:
                async with asyncio.timeout(request.seconds):
                    response = await (await self._connection()).send(data, sent)
        except TimeoutError:
            raise httpx2.ReadTimeout("no response in time") from None
        if "set-cookie" in response.headers:
            self._use_cookies(response)
        return response

    def _encoded(self, headers: Mapping[str, str], body: bytes) -> bytes:
        """Return the bytes of a request. Raises LocalProtocolError for a header that would end early."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if lines.count("\n") != len(headers) or lines.count("\r") != len(headers) or "\0" in lines:
            raise httpx2.LocalProtocolError("Illegal header value")
        try:
            return f"{self._start}{lines}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body
        except UnicodeEncodeError:
            raise httpx2.LocalProtocolError("Illegal header value") from None

    async def _connection(self) -> WireConnection:
        """Return a connection that waits for a request, or a new one. Raises the errors of httpx2."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and loop.time() - connection.idle_since < _IDLE_SECONDS:
                return connection
            connection.abort()
        if self._is_secure and self._tls is None:
            self._tls = self._options.tls or default_tls()
        port = self._port or (443 if self._is_secure else 80)
        try:
            async with asyncio.timeout(self._options.timeout):
                _, connection = await loop.create_connection(
                    lambda: WireConnection(self._release),
                    self._host,
                    port,
                    ssl=self._tls,
                    server_hostname=self._host if self._is_secure else None,
                )
        except TimeoutError:
            raise httpx2.ConnectTimeout("no connection in time") from None
        except (ssl.SSLError, socket.gaierror) as error:
            raise httpx2.ConnectError(str(error)) from None
        except OSError:  # It names the addresses, and another text for each system.
            raise httpx2.ConnectError("All connection attempts failed") from None
        self._all.add(connection)
        return connection

    def _release(self, connection: WireConnection, is_reusable: bool) -> None:
        if is_reusable and len(self._idle) < _MAX_IDLE:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
            return
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.abort()

    def _use_cookies(self, response: WireResponse) -> None:
        """Let httpx2 send all further requests, with the cookies of the server."""
        self._is_plain = False
        request = httpx2.Request(response.request.method, response.request.url)
        self._client.cookies.extract_cookies(
            httpx2.Response(response.status_code, headers=response.raw, request=request)
        )

    async def aclose(self) -> None:
        """Close all connections. What is sent later is refused by httpx2."""
        self._is_plain = False
        for connection in list(self._all):
            connection.abort()
        await self._client.aclose()
