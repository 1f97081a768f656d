"""ASGI's dictionaries, spoken: answers are sent, and it is seen when a client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final

from ..protocol import jsonrpc
from ..protocol.jsonrpc import Id
from .headers import JSON, HTTPError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Sending = Awaitable[None]  # What is left to do once a request is understood: while it lasts, only its own frame does.
Raw = Sequence[tuple[bytes, bytes]]
_JSON: Final = (b"content-type", JSON.encode())


class ClientDisconnectError(Exception):
    """The client went away before its request was complete."""


def disconnect_task(receive: Receive, max_seconds: float | None = None) -> asyncio.Task[None]:
    """A task that ends when the client of a request goes away, or has to: after so many seconds."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(_wait_for_disconnect(receive))
    if max_seconds is not None:
        timer = loop.call_later(max_seconds, task.cancel)
        task.add_done_callback(lambda _: timer.cancel())
    return task


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def respond(send: Send, status: int, body: bytes = b"", more: Raw = ()) -> None:
    """Send a whole answer; a body is JSON."""
    length = (b"content-length", b"%d" % len(body))
    head: list[tuple[bytes, bytes]] = [length, _JSON] if body else [length]
    if more:
        head.extend(more)
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: HTTPError, id: Id | None = None, null_id: bool = False, more: Raw = ()) -> None:
    """Send the answer to a request that is turned away."""
    body = jsonrpc.error(id, error.code, error.reason, error.data, null_id)
    # What is left of the body is not read, so the connection cannot go on to another request.
    closing = ((b"connection", b"close"),) if error.status in (408, 413, 431) else ()
    await respond(send, error.status, body, (*more, *closing))


async def send_metadata(send: Send, method: str, document: bytes) -> None:
    """Send a document that is for everybody, scripts of any page among them."""
    if method not in ("GET", "HEAD"):
        return await send_error(send, HTTPError(405, "this is only read"), more=[(b"allow", b"GET, HEAD")])
    open_to_all = ((b"access-control-allow-origin", b"*"), (b"cache-control", b"public, max-age=300"))
    await respond(send, 200, document, open_to_all)


def id_of(message: object) -> Id | None:
    """The id of a message that is turned away, where it has one."""
    id: object = getattr(message, "id", None)
    return id if isinstance(id, (int, str)) else None


def path_of(scope: Mapping[str, Any]) -> str:
    """The path of a request, below where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return (path.removeprefix(root) if root else path) or "/"
