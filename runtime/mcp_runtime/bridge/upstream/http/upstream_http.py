"""The HTTP transport to an upstream: requests without a login have connections of their own, others use httpx2."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, cast
from urllib.request import getproxies

import httpx2

from ....protocol.jsonrpc import Message, RequestMessage, ResultMessage, decode
from ....protocol.large.pieces import LARGE
from ....transports.http_client.connection import HTTPConnection, HTTPOptions
from ....transports.http_client.streamable import StreamableHTTPClient
from ....transports.http_client.transport import HTTPClientTransport
from ...raw.raw_session import is_for_bytes, split_result
from .wire import SentRequest, WireConnection, WireResponse

_MAX_IDLE: Final = 128  # Connections that wait for a request.
_IDLE_SECONDS: Final = 4.0  # Seconds after which such a connection is not used: servers close them after 5.
_OWN_HEADERS: Final = frozenset(("host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"))


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
        self._is_plain = not (own or options.auth or options.proxy or options.client or parsed.userinfo or getproxies())
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

    async def send(self, request: PlainRequest | httpx2.Request, **settings: Any) -> httpx2.Response:
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
        return cast(httpx2.Response, response)  # It has all that the transport uses.

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
            self._tls = self._options.tls or httpx2.create_ssl_context()
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
        except OSError as error:  # Errors of TLS as well.
            raise httpx2.ConnectError(str(error)) from None
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
        """Close all connections."""
        for connection in list(self._all):
            connection.abort()
        await self._client.aclose()


class UpstreamHTTPConnection(HTTPConnection):
    """Requests to an upstream."""

    def __init__(self, url: str, options: HTTPOptions) -> None:
        super().__init__(url, options)
        self._client = cast(httpx2.AsyncClient, PlainHTTPClient(self._client, url, options))


class UpstreamStreamableClient(StreamableHTTPClient):
    """The requests to an upstream, whose results pass as bytes where they are not read."""

    waits_for_bytes: Callable[[RequestMessage], bool]

    large = -1  # All messages are read below.

    async def _decode_large(self, data: bytes, request: RequestMessage) -> Message | list[Message]:
        row = self.revision.http.tool_schemas  # Lists of tools are read: they declare headers of requests.
        if (row is None or request.method != row.method) and self.waits_for_bytes(request):
            split = split_result(data)
            if split is not None and split[0] == request.id:
                return ResultMessage(request.id, split[1])
        return await super()._decode_large(data, request) if len(data) > LARGE else decode(data)


class UpstreamHTTPTransport(HTTPClientTransport):
    """The transport of a connection to an upstream over HTTP."""

    connection_class = UpstreamHTTPConnection
    streamable_class = UpstreamStreamableClient

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Create a connection, with the arguments of `HTTPClientTransport`."""
        super().__init__(*arguments, **named)
        assert isinstance(self._streamable, UpstreamStreamableClient), "the class says so"
        self._streamable.waits_for_bytes = self._waits_for_bytes

    def _waits_for_bytes(self, request: RequestMessage) -> bool:
        """Return True if the result of a request need not be parsed."""
        return self._sink is not None and is_for_bytes(self._sink.connection, request.id)
