"""The two sides of a JSON-RPC 2.0 protocol over HTTP: a client of a URL, and a server that is an ASGI application.

Each message is the body of a POST. The response to a request is its body, as JSON; that of a method which streams is a
series of Server-Sent Events, each with a response to the same request, as the Agent2Agent Protocol has them:
https://a2a-protocol.org/v0.3.0/specification/#33-streaming-transport-server-sent-events
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from pydantic import ValidationError

from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    JSONRPCError,
    LocalError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from mcp_runtime.http import sse
from mcp_runtime.http.asgi import (
    BodyReader,
    ClientDisconnectError,
    Receive,
    Scope,
    Send,
    disconnection,
    refuse_body,
    respond,
)
from mcp_runtime.http.client_rules import is_response_to
from mcp_runtime.http.headers import EVENT_STREAM, HTTPError, media_type, read_headers
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.framing import MAX_MESSAGE_BYTES, SizeLimit
from mcp_runtime.protocol.jsonrpc import ErrorMessage, NotificationMessage, RequestMessage, ResultMessage
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
_KEEP_ALIVE_SECONDS: Final = 15.0
_MAX_RUNNING: Final = 1000  # Requests that are handled at the same time.

_log: Final = logging.getLogger("mcp_runtime.json_rpc.http")
T = TypeVar("T")
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class HTTPClient:
    """The client of one URL. Subclasses are generated: they send with methods; those that stream are iterators."""

    def __init__(self) -> None:
        self._connection: http_client.HTTPConnection | None = None
        self._last_id = 0

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
            raise LocalError(f"{type(self).__name__} is connected already; create another one")
        self._connection = http_client.HTTPConnection(url, http or http_client.HTTPOptions())
        try:
            yield self
        finally:
            connection, self._connection = self._connection, None
            await connection.close()

    async def _send_request(self, row: RequestRow, params: Any, timeout: float | None = None) -> Any:
        """Send a request and return its result. Cancelling the call closes its connection.

        Raises RemoteJSONRPCError for an error of the other side, RequestTimeoutError after `timeout` seconds,
        InvalidResponseError for a result of another type, HTTPStatusError, and ConnectionClosedError.
        """

        async def exchange() -> Any:
            connection, id, response = await self._post(row, params, _POST)
            return await _read(connection, row, id, response)

        return await _within(timeout, exchange(), row)

    async def _stream(self, row: RequestRow, params: Any, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """Send a request and yield its results. `timeout` are the seconds until the next one. Raises as requests do."""
        connection, id, response = await _within(timeout, self._post(row, params, _STREAM), row)
        if media_type(response.headers.get("content-type", "")) != EVENT_STREAM or response.status_code != 200:
            yield await _within(timeout, _read(connection, row, id, response), row)
            return
        try:
            async with aclosing(_data_of_events(connection, row, response)) as events:
                while (data := await _within(timeout, anext(events, None), row)) is not None:
                    yield _result(connection, row, id, response, data)
        finally:
            await response.aclose()

    async def _send_notification(self, row: NotificationRow, params: Any) -> None:
        """Send a notification. Raises HTTPStatusError if it is not accepted, and ConnectionClosedError."""
        connection = self._connected()
        body = jsonrpc.notification(row.method, checked(row, params))
        response = await connection.send("POST", _POST, body, wait_for_response=False)
        await connection.read_error(response)
        if not response.is_success:
            raise _status_error(connection, response)

    async def _post(
        self, row: RequestRow, params: Any, headers: dict[str, str]
    ) -> tuple[http_client.HTTPConnection, jsonrpc.Id, httpx2.Response]:
        connection = self._connected()
        self._last_id += 1
        body = jsonrpc.request(self._last_id, row.method, checked(row, params))
        return connection, self._last_id, await connection.send("POST", headers, body)

    def _connected(self) -> http_client.HTTPConnection:
        if self._connection is None:
            name = type(self).__name__
            raise ConnectionClosedError(f"{name} is not connected; send inside of `async with {name}().connect(url)`")
        return self._connection


async def _within(seconds: float | None, waiting: Awaitable[T], row: Row) -> T:
    """Return what is waited for. Raises RequestTimeoutError after so many seconds."""
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            return await waiting
    except TimeoutError:
        if not timer.expired():
            raise
        raise RequestTimeoutError(f"{row.method}: no response within {seconds} s") from None


async def _data_of_events(
    connection: http_client.HTTPConnection, row: RequestRow, response: httpx2.Response
) -> AsyncGenerator[bytes, None]:
    """Yield the data of events. Raises InvalidResponseError if one is too long, ConnectionClosedError if cut off."""
    if (coding := response.headers.get("content-encoding", "identity").lower()) != "identity":
        text = f"{connection.describe(response)}: the content coding {coding[:40]!r} was not requested"
        raise InvalidResponseError(text)
    decoder = connection.decoder()
    try:
        async for part in response.aiter_bytes():
            for event in decoder.feed(part):
                if event.data:
                    yield event.data
    except sse.OversizedEventError as error:
        text = f"{connection.describe(response)}: {error}; HTTPOptions(max_bytes=…) raises it"
        raise InvalidResponseError(text) from None
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        text = f"{connection.describe(response)}: the stream of {row.method} was cut off: {type(error).__name__}"
        raise ConnectionClosedError(text) from None


async def _read(
    connection: http_client.HTTPConnection, row: RequestRow, id: jsonrpc.Id, response: httpx2.Response
) -> Any:
    """Return the result in a body; an error status may have a response of JSON-RPC as its body too."""
    return _result(connection, row, id, response, await connection.read(response))


def _result(
    connection: http_client.HTTPConnection, row: RequestRow, id: jsonrpc.Id, response: httpx2.Response, data: bytes
) -> Any:
    """Return the result in a message. Raises the error that it has, or that it is."""
    message = decoded(data)
    if isinstance(message, ErrorMessage) and message.id in (id, None):
        raise RemoteJSONRPCError(message.code, message.message, message.data)
    if not response.is_success:
        raise _status_error(connection, response)
    if not isinstance(message, ResultMessage) or not is_response_to(message, id):
        reason = getattr(message, "message", "") or "it is no response to this request"
        raise InvalidResponseError(f"{connection.describe(response)}: the response is not valid: {reason}")
    try:
        return validator(row.result)(message.result)
    except ValidationError as error:
        text = f"the result of {row.method} is not valid: {format_validation_error(error)}"
        raise InvalidResponseError(text) from None


def _status_error(connection: http_client.HTTPConnection, response: httpx2.Response) -> HTTPStatusError:
    text = f"{connection.describe(response)}: status {response.status_code}, without a response of JSON-RPC"
    return HTTPStatusError(text, response.status_code)


class HTTPServer(Handlers):
    """A server over HTTP. Subclasses are generated: their methods `on_…` handle requests, and some yield results."""

    _streams: ClassVar[tuple[str, ...]] = ()  # The methods whose handlers yield results.

    def asgi(
        self,
        *,
        hosts: Iterable[str] | None = None,
        origins: Iterable[str] | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> ASGIApp:
        """Return an ASGI 3 application with this server at every path; mount it at its own.

        Args:
            hosts: Values of `Host` to accept. Default None: localhost only.
            origins: Values of `Origin` to accept. Default None: those of localhost, if it is accepted.
            max_bytes: Bytes of one request. Default 8 MiB.
        """
        policy = OriginPolicy.create(hosts, origins)
        reader = BodyReader(SizeLimit(max_bytes, "max_bytes= of asgi()"), _BODY_SECONDS)
        running: set[object] = set()

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                raise LocalError(f"this application serves http, not {scope['type']}; mount it in one that does")
            if len(running) >= _MAX_RUNNING:
                error = HTTPError(503, f"more than {_MAX_RUNNING} requests are handled", close=True, retry_after=1)
                return await refuse_body(receive, send, error)
            running.add(scope_key := object())
            try:
                body = _refused(scope, policy) or await reader.read(receive, _length(scope), scope)
                if isinstance(body, HTTPError):
                    await refuse_body(receive, send, body)
                else:
                    await self._serve(decoded(body), receive, send)
            except ClientDisconnectError:
                _log.debug("a client left before its request was complete")
            finally:
                running.discard(scope_key)

        return serve

    async def _serve(self, message: object, receive: Receive, send: Send) -> None:
        """Respond to a message."""
        if isinstance(message, RequestMessage):
            gone = disconnection(receive)
            serving = asyncio.ensure_future(self._respond(message, send))
            try:
                await asyncio.wait((gone, serving), return_when=asyncio.FIRST_COMPLETED)
            finally:  # Whoever has left waits for nothing.
                gone.cancel()
                if not serving.done():
                    serving.cancel()
                    await asyncio.wait((serving,))
            if not serving.cancelled():
                serving.result()
        elif isinstance(message, NotificationMessage):
            await respond(send, 202)
            row, name = self._receives.get(message.method, (None, ""))
            if isinstance(row, NotificationRow):
                try:
                    await self._call(name, row, message.params)
                except Exception:
                    _log.exception("the handler of %s failed", message.method)
        else:
            text = getattr(message, "message", "") or "a batch, or a response: send one request"
            code = getattr(message, "code", jsonrpc.INVALID_REQUEST)
            id = getattr(message, "id", None)
            await respond(send, 400, jsonrpc.error(id, code, text, null_id=True))

    async def _respond(self, message: RequestMessage, send: Send) -> None:
        """Send the response to a request, or the events of one that streams, whose first one decides."""
        try:
            row, name = self._receives.get(message.method, (None, ""))
            if not isinstance(row, RequestRow):
                raise JSONRPCError(jsonrpc.METHOD_NOT_FOUND, f"{message.method} is not a method of this side")
            called = self._begun(name, row, message.params)
            if message.method not in self._streams:
                return await respond(send, 200, jsonrpc.result(message.id, await called))
        except Exception as error:
            return await respond(send, 200, _error(message, error))
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        async with aclosing(_kept_alive(self._events(message, called))) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, message: RequestMessage, results: AsyncIterator[Any]) -> AsyncGenerator[bytes, None]:
        try:
            async for result in results:
                yield sse.encode(jsonrpc.result(message.id, result))
        except Exception as error:
            yield sse.encode(_error(message, error))
        finally:
            if isinstance(results, AsyncGenerator):
                await results.aclose()


async def _kept_alive(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield events, and a comment where none comes for a while, so that no proxy closes the stream."""
    async with aclosing(events):
        coming: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events, None))
                await asyncio.wait((coming,), timeout=_KEEP_ALIVE_SECONDS)
                if not coming.done():
                    yield sse.KEEP_ALIVE_COMMENT
                    continue
                event, coming = coming.result(), None
                if event is None:
                    return
                yield event
        finally:
            if coming is not None and coming.cancel():
                await asyncio.wait((coming,))


def _error(message: RequestMessage, error: Exception) -> bytes:
    """Return the response for what a handler raised; only a JSONRPCError says what it was."""
    if isinstance(error, JSONRPCError):
        return jsonrpc.error(message.id, error.code, error.message, error.data)
    _log.error("the handler of %s failed", message.method, exc_info=error)
    return jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, "internal error")


def _length(scope: Scope) -> bytes:
    return next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"")


def _refused(scope: Scope, policy: OriginPolicy) -> HTTPError | None:
    """Return why the head of a request is refused. Pages of other origins cannot send JSON without being asked."""
    headers = read_headers(scope["headers"])
    if isinstance(headers, HTTPError):
        return headers
    if (error := policy.check(headers)) is not None:
        return error
    if scope["method"] != "POST":
        return HTTPError(405, "send messages with POST")
    if media_type(headers.get("content-type", "")) != _JSON:
        return HTTPError(415, f"the content type of a message has to be {_JSON}")
    return None
