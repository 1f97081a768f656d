"""The two sides of a JSON-RPC 2.0 protocol over HTTP: a client of a URL, and a server that is an ASGI application.

Each message is the body of a POST. The response to a request is its body, as JSON; that of a method which streams is a
series of Server-Sent Events, each with a response to the same request, as the Agent2Agent Protocol has them:
https://a2a-protocol.org/v0.3.0/specification/#33-streaming-transport-server-sent-events
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import ValidationError

from mcp_runtime import errors
from mcp_runtime._lazy import LazyModule
from mcp_runtime.http import asgi as web
from mcp_runtime.http import sse
from mcp_runtime.http.client_rules import is_response_to
from mcp_runtime.http.headers import EVENT_STREAM, HTTPError, media_type, read_headers
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.framing import DEFAULT_LIMIT, SizeLimit
from mcp_runtime.protocol.models import format_validation_error, validator

from .rows import Handlers, NotificationRow, RequestRow, Row, checked, decoded

if TYPE_CHECKING:
    import httpx2

    from mcp_runtime.transports.http_client import connection as http_client
else:  # Imported when a client connects: a server needs no httpx2.
    httpx2 = LazyModule("httpx2")
    http_client = LazyModule("mcp_runtime.transports.http_client.connection")

_JSON: Final = "application/json"
_POST: Final = {"content-type": _JSON, "accept": _JSON}
_STREAM: Final = {"content-type": _JSON, "accept": f"{EVENT_STREAM}, {_JSON}"}
_STREAM_HEADERS: Final = [(b"content-type", EVENT_STREAM.encode()), (b"cache-control", b"no-cache")]
_BODY_SECONDS: Final = 30.0  # Until the body of a request has arrived.
KEEP_ALIVE_SECONDS: Final = 15.0
MAX_RUNNING: Final = 1000  # Requests that are handled at the same time.

_log: Final = logging.getLogger("mcp_runtime.json_rpc.http")
Names = Iterable[str] | None
ASGIApp = Callable[[web.Scope, web.Receive, web.Send], Awaitable[None]]


class HTTPClient:
    """The client of one URL. Subclasses are generated: they send with methods; those that stream are iterators."""

    _connection: http_client.HTTPConnection | None = None
    _last_id = 0

    @asynccontextmanager
    async def connect(self, url: str, *, http: http_client.HTTPOptions | None = None) -> AsyncGenerator[Self]:
        """Send to a URL until the block ends. Nothing is sent before the first request.

        Args:
            url: The URL of the other side, such as `https://example.com/a2a`.
            http: Headers, authorization, proxy, TLS, timeout of the connection, and the bytes of one response or event
                (default 8 MiB). Default: see `HTTPOptions`.

        Raises NotInstalledError without httpx2, and LocalError for a URL that is none.
        """
        if self._connection is not None:
            raise errors.LocalError(f"{type(self).__name__} is connected already; create another one")
        self._connection = http_client.HTTPConnection(url, http or http_client.HTTPOptions())
        try:
            yield self
        finally:
            connection = self._connection
            self._connection = None
            await connection.close()

    async def _send_request(self, row: RequestRow, params: Any, timeout: float | None = None) -> Any:
        """Send a request and return its result. Cancelling the call closes its connection.

        Raises RemoteJSONRPCError for an error of the other side, RequestTimeoutError after `timeout` seconds,
        InvalidResponseError for a result of another type, HTTPStatusError, and ConnectionClosedError.
        """
        return await _within(timeout, self._exchange(row, params), row)

    async def _exchange(self, row: RequestRow, params: Any) -> Any:
        return await (await self._post(row, params, _POST)).read()

    async def _stream(self, row: RequestRow, params: Any, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """Send a request and yield its results. `timeout` are the seconds until the next one. Raises as requests do."""
        exchange: _Exchange = await _within(timeout, self._post(row, params, _STREAM), row)
        head = exchange.response.status_code, media_type(exchange.response.headers.get("content-type", ""))
        if head != (200, EVENT_STREAM):
            yield await _within(timeout, exchange.read(), row)
            return
        async with aclosing(exchange.response), aclosing(exchange.events()) as events:
            while (data := await _within(timeout, anext(events, None), row)) is not None:
                yield exchange.result(data)

    async def _send_notification(self, row: NotificationRow, params: Any) -> None:
        """Send a notification. Raises HTTPStatusError if it is not accepted, and ConnectionClosedError."""
        exchange = await self._post(row, params, _POST)
        await exchange.connection.read_error(exchange.response)
        exchange.check_status()

    async def _post(self, row: Row, params: Any, headers: dict[str, str]) -> _Exchange:
        connection = self._connection
        if connection is None:
            name = type(self).__name__
            raise errors.ConnectionClosedError(f"not connected; send inside of `async with {name}().connect(url)`")
        self._last_id += 1
        id, values, is_request = self._last_id, checked(row, params), isinstance(row, RequestRow)
        body = jsonrpc.request(id, row.method, values) if is_request else jsonrpc.notification(row.method, values)
        response = await connection.send("POST", headers, body, wait_for_response=is_request)
        return _Exchange(connection, row, id, response)


async def _within(seconds: float | None, waiting: Awaitable[Any], row: Row) -> Any:
    """Return what is waited for. Raises RequestTimeoutError after so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError:
        raise errors.RequestTimeoutError(f"{row.method}: no response within {seconds} s") from None


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A message that was sent, and the response of HTTP, whose body is not read yet."""

    connection: http_client.HTTPConnection
    row: Row
    id: int
    response: http_client.ClientResponse

    async def read(self) -> Any:
        """Return the result in the body; with an error status, a body may be a response of JSON-RPC as well."""
        return self.result(await self.connection.read(self.response))

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield the data of events. Raises InvalidResponseError for a long one, ConnectionClosedError if cut off."""
        place = self.connection.describe(self.response)
        if (coding := self.response.headers.get("content-encoding", "identity").lower()) != "identity":
            raise errors.InvalidResponseError(f"{place}: the content coding {coding[:40]!r} was not requested")
        decoder = self.connection.decoder()
        try:
            async for part in http_client.parts_of(self.response):
                for event in decoder.feed(part):
                    if event.data:
                        yield event.data
        except sse.OversizedEventError as error:
            raise errors.InvalidResponseError(f"{place}: {error}; HTTPOptions(max_bytes=…) raises it") from None
        except (httpx2.HTTPError, httpx2.StreamError):
            raise errors.ConnectionClosedError(f"{place}: the stream of {self.row.method} was cut off") from None

    def result(self, data: bytes) -> Any:
        """Return the result in a message. Raises the error that it has, or that it is."""
        message = decoded(data)
        if isinstance(message, jsonrpc.ErrorMessage) and message.id in (self.id, None):
            raise errors.RemoteJSONRPCError(message.code, message.message, message.data)
        self.check_status()
        if not isinstance(message, jsonrpc.ResultMessage) or not is_response_to(message, self.id):
            text = f"the response is not valid: {getattr(message, 'message', 'it is not a response to this request')}"
            raise errors.InvalidResponseError(f"{self.connection.describe(self.response)}: {text}")
        try:
            return validator(self.row.result if isinstance(self.row, RequestRow) else None)(message.result)
        except ValidationError as error:
            text = f"the result of {self.row.method} is not valid: {format_validation_error(error)}"
            raise errors.InvalidResponseError(text) from None

    def check_status(self) -> None:
        """Raise HTTPStatusError for an error status."""
        if not 200 <= self.response.status_code < 300:
            place, status = self.connection.describe(self.response), self.response.status_code
            raise errors.HTTPStatusError(f"{place}: status {status}, without a response of JSON-RPC", status)


class HTTPServer(Handlers):
    """A server over HTTP. Subclasses are generated: their methods `on_…` handle requests, and some yield results."""

    _streams: ClassVar[tuple[str, ...]] = ()  # The methods whose handlers yield results.

    def asgi(self, *, hosts: Names = None, origins: Names = None, max_bytes: int = DEFAULT_LIMIT.bytes) -> ASGIApp:
        """Return an ASGI 3 application with this server at every path; mount it at its own.

        Args:
            hosts: Values of `Host` to accept. Default None: localhost only.
            origins: Values of `Origin` to accept. Default None: those of localhost, if it is accepted.
            max_bytes: Bytes of one request. Default 8 MiB.
        """
        policy = OriginPolicy.create(hosts, origins)
        reader = web.BodyReader(SizeLimit(max_bytes, "max_bytes= of asgi()"), _BODY_SECONDS)
        slots = asyncio.Semaphore(MAX_RUNNING)

        async def serve(scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
            if scope["type"] != "http":
                raise errors.LocalError(f"this application serves http, not {scope['type']}: mount it in one that does")
            if slots.locked():
                error = HTTPError(503, f"more than {MAX_RUNNING} requests are handled", close=True, retry_after=1)
                return await web.refuse_body(receive, send, error)
            async with slots:
                with suppress(web.ClientDisconnectError):
                    length = dict(scope["headers"]).get(b"content-length", b"")
                    body = _refused(scope, policy) or await reader.read(receive, length, scope)
                    if isinstance(body, HTTPError):
                        return await web.refuse_body(receive, send, body)
                    await self._serve(decoded(body), receive, send)

        return serve

    async def _serve(self, message: object, receive: web.Receive, send: web.Send) -> None:
        """Respond to a message. Whoever leaves waits for nothing: the handler is cancelled."""
        if isinstance(message, jsonrpc.RequestMessage):
            gone = web.disconnection(receive)
            serving = asyncio.ensure_future(self._respond(message, send))
            gone.add_done_callback(lambda _: serving.cancel())
            try:
                await serving
            except asyncio.CancelledError:
                if not gone.done():
                    raise
            finally:
                gone.cancel()
        elif isinstance(message, jsonrpc.NotificationMessage):
            await web.respond(send, 202)
            row, name = self._receives.get(message.method, (None, ""))
            if isinstance(row, NotificationRow):  # Its response is sent: the server of ASGI logs what it raises.
                await self._call(name, row, message.params)
        else:
            text = getattr(message, "message", "") or "a batch, or a response: send one request"
            code, id = getattr(message, "code", jsonrpc.INVALID_REQUEST), getattr(message, "id", None)
            await web.respond(send, 400, jsonrpc.error(id, code, text, null_id=True))

    async def _respond(self, message: jsonrpc.RequestMessage, send: web.Send) -> None:
        """Send the response to a request: one, or a stream of results."""
        try:
            called = self._handled(message)
            if message.method not in self._streams:
                return await web.respond(send, 200, jsonrpc.result(message.id, await called))
        except Exception as error:
            return await web.respond(send, 200, _error(message, error))
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        silent = asyncio.create_task(_keep_alive(send))
        try:
            async for result in called:
                await send(_part(sse.encode(jsonrpc.result(message.id, result))))
        except Exception as error:
            await send(_part(sse.encode(_error(message, error))))
        finally:
            silent.cancel()
            if isinstance(called, AsyncGenerator):
                await called.aclose()
        await send({"type": "http.response.body", "body": b""})


def _part(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _keep_alive(send: web.Send) -> None:
    """Send a comment from time to time, so that no proxy closes a silent stream."""
    while True:
        await asyncio.sleep(KEEP_ALIVE_SECONDS)
        await send(_part(sse.KEEP_ALIVE_COMMENT))


def _error(message: jsonrpc.RequestMessage, error: Exception) -> bytes:
    """Return the response for what a handler raised; only a JSONRPCError says what it was."""
    if isinstance(error, errors.JSONRPCError):
        return jsonrpc.error(message.id, error.code, error.message, error.data)
    _log.error("the handler of %s failed", message.method, exc_info=error)
    return jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, "internal error")


def _refused(scope: web.Scope, policy: OriginPolicy) -> HTTPError | None:
    """Return why the head of a request is refused. Pages of other origins cannot send JSON without being asked."""
    headers = read_headers(scope["headers"])
    if isinstance(headers, HTTPError):
        return headers
    if scope["method"] != "POST":
        return HTTPError(405, "send messages with POST")
    if media_type(headers.get("content-type", "")) != _JSON:
        return HTTPError(415, f"the content type of a message has to be {_JSON}")
    return policy.check(headers)
