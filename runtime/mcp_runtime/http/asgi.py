"""ASGI helpers: send responses and detect client disconnects (https://asgi.readthedocs.io/en/latest/specs/www.html)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, cast

from ..protocol import jsonrpc
from ..protocol.framing import SizeLimit
from ..protocol.jsonrpc import Id
from ..session.instruments import instruments
from .clients import BufferedBytes, address_of, client_key
from .headers import JSON, PROTOCOL_VERSION, SESSION_ID, HTTPError, Raw

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
_JSON: Final = (b"content-type", JSON.encode())

# What returns the whole body of a request, what writes a whole response, or a part of one with its head, what tells
# when the client disconnects, and what lets a response go on without the application, by the class of a server's object
# for one request: `receive` and `send` of ASGI are its methods. Servers without an entry get the messages of ASGI.
WHOLE_BODIES: Final[dict[type, Callable[[Any], bytes | None]]] = {}
WHOLE_RESPONSES: Final[dict[type, Callable[[Any, int, bytes], bool]]] = {}
RESPONSE_PARTS: Final[dict[type, Callable[[Any, Raw | None, bytes, bool], bool]]] = {}
DISCONNECTIONS: Final[dict[type, Callable[[Any], asyncio.Future[None] | None]]] = {}
HELD_RESPONSES: Final[dict[type, Callable[[Any, ResponseClient], HeldResponse | None]]] = {}
_REST_SECONDS: Final = 1.0  # Seconds for which the rest of a refused body is received, and its bytes.
_REST_BYTES: Final = 64 * 1024 * 1024
_PART_BYTES: Final = 64 * 1024  # Bytes of a part of a response that are worth a copy.
_MAX_BUFFERED: Final = 256 * 1024 * 1024  # Bytes.
_TICKS: Final = 10  # The number of timer ticks in the time limit of one request.
_TOO_MANY: Final = HTTPError(
    503, "too many large requests are incomplete: send it again later", close=True, retry_after=1, limit="max_buffered"
)

_EXPOSED: Final = ", ".join(("Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "DPoP-Nonce", "Retry-After"))
_REQUEST_HEADERS: Final = (
    f"content-type, accept, authorization, {SESSION_ID}, {PROTOCOL_VERSION}, mcp-method, mcp-name, last-event-id"
)
_MAX_AGE: Final = b"600"  # Seconds for which a browser may cache the response to a preflight request.
_ALLOW_ORIGIN: Final = b"access-control-allow-origin"


class ResponseClient(Protocol):
    """What sends a held response."""

    def on_disconnect(self) -> None:
        """Send no more: the client has disconnected."""


class HeldResponse(Protocol):
    """A server's object for a response that goes on after the application has returned."""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message of ASGI."""

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what sends more, when it is its turn."""

    def abort(self) -> None:
        """Close the connection: the response cannot be completed."""


class ClientDisconnectError(Exception):
    """Raised if the client disconnects before its request is complete."""


class RefusedRequestError(Exception):
    """Raised to answer a request with an error, whose response has these headers besides."""

    def __init__(self, error: HTTPError, headers: Raw = ()) -> None:
        super().__init__(error.reason)
        self.error = error
        self.headers = headers


def disconnection(receive: Receive, max_seconds: float | None = None) -> asyncio.Future[None]:
    """Return a future that is done when the client of a request disconnects, or cancelled after `max_seconds`.

    It is a task that receives, unless the server tells by itself: very many streams wait at the same time.
    """
    loop = asyncio.get_running_loop()
    request: object = getattr(receive, "__self__", None)
    watch = DISCONNECTIONS.get(type(request))
    future = None if watch is None else watch(request)
    if future is None:
        future = loop.create_task(_wait_for_disconnect(receive))
    if max_seconds is not None:
        timer = loop.call_later(max_seconds, future.cancel)
        future.add_done_callback(lambda _: timer.cancel())
    return future


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def write_whole(send: Send, status: int, body: bytes) -> bool:
    """Write a complete response without further headers; return False if it has to be sent."""
    request: object = getattr(send, "__self__", None)
    write = WHOLE_RESPONSES.get(type(request))
    return write is not None and write(request, status, body)


async def respond(send: Send, status: int, body: bytes = b"", headers: Raw = ()) -> None:
    """Send a complete response; a body that is not empty is JSON."""
    if not headers and write_whole(send, status, body):
        return
    length = (b"content-length", b"%d" % len(body))
    head: list[tuple[bytes, bytes]] = [length, _JSON] if body else [length]
    if headers:
        head.extend(headers)
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


class PartedResponse:
    """A response with status 200 that is sent in parts: the head and what is added go out together."""

    __slots__ = ("_send", "_request", "_headers", "_parts", "_size")

    def __init__(self, send: Send, headers: Raw | None) -> None:
        """Create a response with these headers, of which nothing is sent yet; None if the head is sent."""
        self._send = send
        self._request: object = getattr(send, "__self__", None)
        self._headers = headers
        self._parts: list[bytes] | None = None  # None instead of an empty list, to save memory.
        self._size = 0

    @property
    def is_large(self) -> bool:
        """True if so much was added that it should be sent."""
        return self._size >= _PART_BYTES

    def add(self, part: bytes) -> None:
        """Add bytes to the next part."""
        if self._parts is None:
            self._parts = []
        self._parts.append(part)
        self._size += len(part)

    async def flush(self) -> None:
        """Send the head, and what was added; wait while the client does not read."""
        if self._headers is not None or self._parts is not None:
            await self._write(True)

    async def end(self) -> None:
        """Send what was added, and the end of the response."""
        await self._write(False)

    def hold(self, client: ResponseClient) -> HeldResponse | None:
        """Let the response go on when the application has returned; return None if the server cannot do that."""
        hold = HELD_RESPONSES.get(type(self._request))
        return None if hold is None or self._headers is not None else hold(self._request, client)

    async def _write(self, more: bool) -> None:
        headers, parts = self._headers, self._parts
        self._headers = self._parts = None
        self._size = 0
        part = b"" if parts is None else b"".join(parts)
        write = RESPONSE_PARTS.get(type(self._request))
        if write is not None and write(self._request, headers, part, more):
            return
        if headers is not None:
            await self._send({"type": "http.response.start", "status": 200, "headers": [*headers]})
        if part or not more:
            await self._send({"type": "http.response.body", "body": part, "more_body": more})


def closing_sender(send: Send) -> Send:
    """Return a function that sends a response after which the connection is closed."""

    async def send_and_close(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return send_and_close


async def send_error(
    send: Send, error: HTTPError, id: Id | None = None, null_id: bool = False, headers: Raw = ()
) -> None:
    """Send the error response to a rejected request, with a JSON-RPC error as its body."""
    await respond(send, error.status, _error_body(error, id, null_id), (*headers, *error.fields))


def _error_body(error: HTTPError, id: Id | None = None, null_id: bool = False) -> bytes:
    """Return the JSON-RPC error for a rejected request, and count it if it is above a limit."""
    if error.limit is not None:
        instruments().counted("refused", {"limit": error.limit})
    return jsonrpc.error(id, error.code, error.reason, error.data, null_id)


async def refuse_body(receive: Receive, send: Send, error: HTTPError) -> None:
    """Send the error response to a request whose body was not read; with `close` of the error, more of it may come.

    The rest is received for a second at most: a connection that is closed with unread bytes is reset, and the client
    may not get to read the response.
    """
    if not error.close:
        return await send_error(send, error)
    body = _error_body(error)
    head = [(b"content-length", b"%d" % len(body)), _JSON, *error.fields]
    await send({"type": "http.response.start", "status": error.status, "headers": head})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(_REST_SECONDS):
            while more and size < _REST_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message["type"] == "http.request" and bool(message.get("more_body"))
    await send({"type": "http.response.body", "body": b""})


async def send_metadata(send: Send, method: str, document: bytes) -> None:
    """Send a public JSON document that scripts of every origin may read; only GET and HEAD are allowed."""
    if method not in ("GET", "HEAD"):
        return await send_error(
            send, HTTPError(405, "use GET or HEAD for this document"), headers=[(b"allow", b"GET, HEAD")]
        )
    open_to_all = ((b"access-control-allow-origin", b"*"), (b"cache-control", b"public, max-age=300"))
    await respond(send, 200, document, open_to_all)


def id_of(message: object) -> Id | None:
    """Return the id of a rejected message, None if it has no valid id."""
    id: object = getattr(message, "id", None)
    return id if isinstance(id, (int, str)) else None


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path of a request without the `root_path` at which the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return (path.removeprefix(root) if root else path) or "/"


# Request bodies: read with a size limit and a deadline. One timer serves all requests that are being read.


class BodyReader:
    """A reader of request bodies with a size limit and a time limit."""

    def __init__(self, limit: SizeLimit, seconds: float, max_buffered: int = _MAX_BUFFERED) -> None:
        """Create a reader.

        Args:
            limit: The limit of one body; longer bodies are rejected with 413.
            seconds: The time limit for one body, in seconds after the head; later bodies are rejected with 408.
            max_buffered: The limit of all bodies that are not complete. Above it, the largest of the client that holds
                most of them is rejected with 503.
        """
        self.max_bytes = limit.bytes
        self._buffered = BufferedBytes(max_buffered)
        self._digits = len(str(limit.bytes))  # A Content-Length with fewer digits is below the limit.
        self._seconds = seconds
        self._too_long = HTTPError(413, limit.reason, limit="max_body")
        self._too_long_unread = replace(self._too_long, close=True)
        self._ticks = 0  # Counting ticks is cheaper than reading the clock for each request.
        self._started: dict[asyncio.Task[Any], int] = {}
        self._ended: dict[asyncio.Task[Any], HTTPError] = {}  # The reads that are cancelled, and their responses.
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def read(self, receive: Receive, length: bytes = b"", scope: Scope | None = None) -> bytes | HTTPError:
        """Return the body of a request, or the error to reject it with: 413 as soon as it is known to be too long,
        408 if it is late, 503 if too many are incomplete, 400 if `length`, its Content-Length, is not a number. The
        ASGI scope has the address of the client. Raises ClientDisconnectError."""
        if (taken := self.take(receive, length)) is not None:
            return taken
        task = asyncio.current_task(self._loop)
        if task is None or self._timer is None:  # The first request, or the first after an idle time.
            task = self._start_timer()
        self._started[task] = self._ticks
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body") or len(body) > self.max_bytes or message["type"] != "http.request":
                return await self._read_remaining(receive, message, task, scope)
            return body
        except asyncio.CancelledError:
            if (error := self._ended.pop(task, None)) is None:
                raise
            task.uncancel()
            return error
        finally:
            del self._started[task]

    def take(self, receive: Receive, length: bytes) -> bytes | HTTPError | None:
        """Return the body of a request that has arrived as a whole, or its error as `read` does; None if it has to be
        waited for."""
        if length and not (len(length) < self._digits and length.isdigit()):
            if not length.isdigit():
                return HTTPError(400, "Content-Length must be a number")
            digits = length.lstrip(b"0")
            if len(digits) > self._digits or int(digits or b"0") > self.max_bytes:
                return self._too_long_unread
        request: object = getattr(receive, "__self__", None)
        take = WHOLE_BODIES.get(type(request))
        whole = None if take is None else take(request)
        return self._too_long if whole is not None and len(whole) > self.max_bytes else whole

    async def _read_remaining(
        self, receive: Receive, message: MutableMapping[str, Any], task: asyncio.Task[Any], scope: Scope | None
    ) -> bytes | HTTPError:
        """Return the body that starts with this ASGI message."""
        parts: list[bytes] = []
        size, client = 0, client_key(None, address_of(scope))
        try:
            while message["type"] != "http.disconnect":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > self.max_bytes:
                    return self._too_long_unread if message.get("more_body") else self._too_long
                if not message.get("more_body"):
                    return b"".join(parts)
                self._buffered.set(task, client, size)
                if (excess := self._buffered.excess()) is task:
                    return _TOO_MANY
                if excess is not None:
                    self._buffered.set(excess, client, 0)
                    self._end(cast("asyncio.Task[Any]", excess), _TOO_MANY)
                message = await receive()
            raise ClientDisconnectError
        finally:
            self._buffered.set(task, client, 0)

    def _start_timer(self) -> asyncio.Task[Any]:
        """Start the timer in the running loop, and return the current task."""
        # Cached for later requests: get_running_loop makes a system call.
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds / _TICKS, self._cancel_late)
        task = asyncio.current_task(self._loop)
        assert task is not None, "a request is served by a task"
        return task

    def close(self) -> None:
        """Reject the requests whose bodies have not arrived: the server ends."""
        for task in self._started:
            self._end(task, HTTPError(503, "the server is shutting down", retry_after=1))

    def _end(self, task: asyncio.Task[Any], error: HTTPError) -> None:
        if task not in self._ended:
            self._ended[task] = error
            task.cancel()

    def _cancel_late(self) -> None:
        """Cancel the reads that are late; restart the timer while bodies are being read."""
        loop = asyncio.get_running_loop()
        self._ticks += 1
        self._timer = None
        late = HTTPError(408, f"the request took longer than {self._seconds:g} seconds", limit="body_timeout")
        for task, since in self._started.items():
            if self._ticks - since > _TICKS:
                self._end(task, late)
        if self._started:
            self._timer = loop.call_later(self._seconds / _TICKS, self._cancel_late)


# CORS: which headers let a web page of another origin read the responses of a server.
#
# https://fetch.spec.whatwg.org/#http-cors-protocol


class CORSPolicy:
    """The origins whose pages may read responses. Credentials are never allowed: tokens are in the requests."""

    def __init__(self, origins: Iterable[str]) -> None:
        """Create a policy for origins such as `https://app.example.com`; `*` allows all."""
        self._origins = frozenset(origin.lower().encode() for origin in origins)

    def sender(self, raw: Raw, send: Send) -> Send:
        """Return a function that sends the response to a request with the headers that its origin needs."""
        origin = next((value for name, value in raw if name == b"origin"), None)
        if origin is None or (origin.lower() not in self._origins and b"*" not in self._origins):
            return send
        added = ((_ALLOW_ORIGIN, origin), (b"access-control-expose-headers", _EXPOSED.encode()), (b"vary", b"origin"))

        async def send_with_cors(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"]]
                if not any(name.lower() == _ALLOW_ORIGIN for name, _ in headers):
                    headers += added
                message = {**message, "headers": headers}
            await send(message)

        return send_with_cors


def preflight_headers(raw: Raw, methods: str) -> Raw:
    """Return the headers of the response to a preflight request (OPTIONS).

    All request headers are allowed: the names of `Mcp-Param-…` headers depend on the tools.
    """
    requested = next((value for name, value in raw if name == b"access-control-request-headers"), b"")
    return (
        (b"access-control-allow-methods", methods.encode()),
        (b"access-control-allow-headers", requested or _REQUEST_HEADERS.encode()),
        (b"access-control-max-age", _MAX_AGE),
        (b"vary", b"access-control-request-headers"),
    )
