"""ASGI's dictionaries, spoken: a request's body is read within its limits, and answers are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

from ... import jsonrpc
from ...http.headers import EVENTS, JSON, Headers, Turned
from ...jsonrpc import Id

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Raw = Iterable[tuple[bytes, bytes]]

_JSON: Final = (b"content-type", JSON.encode())
_STREAM: Final = (
    (b"content-type", EVENTS.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class Left(Exception):
    """The client went away before its request was complete."""


async def read_body(receive: Receive, headers: Headers, largest: int, seconds: float) -> bytes | Turned:
    """The body of a request, refused as soon as it is known to be longer than `largest` bytes or to take longer than
    so many seconds. Raises Left."""
    length = headers.get("content-length", "0")
    too_large = Turned(413, f"a message is at most {largest} bytes long")
    if not length.isascii() or not length.isdigit() or len(length) > 15:
        return Turned(400, "the Content-Length is no number")
    if int(length) > largest:
        return too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Left
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > largest:
                    return too_large
                parts.append(part)
                if not message.get("more_body", False):
                    return part if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        return Turned(408, f"the request took longer than {seconds:g} seconds")


async def gone(receive: Receive) -> None:
    """Wait until the client of a request goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def respond(send: Send, status: int, body: bytes = b"", more: Raw = ()) -> None:
    """Send a whole answer; a body is JSON."""
    head = [(b"content-length", b"%d" % len(body)), *more]
    if body:
        head.append(_JSON)
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def turn_away(send: Send, turned: Turned, id: Id | None = None, null_id: bool = False, more: Raw = ()) -> None:
    """Send the answer to a request that is turned away."""
    body = jsonrpc.error(id, turned.code, turned.why, turned.data, null_id)
    # What is left of the body is not read, so the connection cannot go on to another request.
    closing = ((b"connection", b"close"),) if turned.status in (408, 413, 431) else ()
    await respond(send, turned.status, body, (*more, *closing))


async def begin_stream(send: Send, more: Raw = ()) -> None:
    """Send the head of a stream."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *more]})


def writer(send: Send) -> Callable[[bytes], Awaitable[None]]:
    """Writes the parts of a stream."""

    async def write(part: bytes) -> None:
        await send({"type": "http.response.body", "body": part, "more_body": True})

    return write


async def end_stream(send: Send) -> None:
    """Send the end of a stream."""
    await send({"type": "http.response.body", "body": b""})


def id_of(message: object) -> Id | None:
    """The id of a message that is turned away, where it has one."""
    id: object = getattr(message, "id", None)
    return id if isinstance(id, (int, str)) else None


def path_of(scope: Mapping[str, Any]) -> str:
    """The path of a request, below where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"
