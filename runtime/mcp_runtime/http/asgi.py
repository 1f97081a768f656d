"""ASGI helpers: send responses and detect client disconnects (https://asgi.readthedocs.io/en/latest/specs/www.html)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Final, Protocol

from ..protocol import jsonrpc
from ..protocol.jsonrpc import Id
from .headers import JSON, HTTPError, Raw

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Sending = Awaitable[None]  # A response that is still to be sent: the caller awaits it after its own frame has ended.
_JSON: Final = (b"content-type", JSON.encode())


class ResponseClient(Protocol):
    """What sends a held response."""

    def on_disconnect(self) -> None:
        """Send no more: the client has disconnected."""
        ...


class HeldResponse(Protocol):
    """A server's object for a response that goes on after the application has returned."""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message of ASGI."""
        ...

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what sends more, when it is its turn."""
        ...

    def abort(self) -> None:
        """Close the connection: the response cannot be completed."""
        ...


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


class ClientDisconnectError(Exception):
    """Raised if the client disconnects before its request is complete."""


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


async def respond(send: Send, status: int, body: bytes = b"", headers: Raw = ()) -> None:
    """Send a complete response; a body that is not empty is JSON."""
    if not headers and WHOLE_RESPONSES:
        request: object = getattr(send, "__self__", None)
        if (write := WHOLE_RESPONSES.get(type(request))) is not None and write(request, status, body):
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
    body = jsonrpc.error(id, error.code, error.reason, error.data, null_id)
    await respond(send, error.status, body, (*headers, *error.fields))


async def refuse_body(receive: Receive, send: Send, error: HTTPError) -> None:
    """Send the error response to a request whose body was not read; with `close` of the error, more of it may come.

    The rest is received for a second at most: a connection that is closed with unread bytes is reset, and the client
    may not get to read the response.
    """
    if not error.close:
        return await send_error(send, error)
    body = jsonrpc.error(None, error.code, error.reason, error.data)
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
