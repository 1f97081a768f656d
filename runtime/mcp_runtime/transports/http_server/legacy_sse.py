"""HTTP with Server-Sent Events as before Streamable HTTP: one endpoint to listen on, another to post to (the first
revision, basic/transports). A GET opens a conversation; what is posted to the address it is told goes into it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from ...aio.keepalive import KeepAliveTimer
from ...http.asgi import (
    Receive,
    Scope,
    Send,
    disconnect_task,
    path_of,
    respond,
    send_error,
)
from ...http.headers import EVENT_STREAM, JSON, Headers, HTTPError, accepts, media_type
from ...protocol.sse import encode
from ...session.identity import RequestAuth
from ...session.interfaces import Candidate, Service
from ...session.serving import serve
from .event_store import InMemoryEventStore
from .stream_response import send_stream
from .streams import SSEStream

_QUEUE_SIZE: Final = 256  # Messages of one client that may wait to be read before the next POST has to wait.

Body = Callable[[], Awaitable[bytes | HTTPError]]


class _LegacySSETransport:
    """The transport of one conversation: posted messages come in, and go out on the stream."""

    close_reason = "the client left its stream"

    def __init__(self, auth: RequestAuth) -> None:
        self.owner = _owner(auth)
        self.stream = SSEStream(InMemoryEventStore(), resumable=False)
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_SIZE)
        self._closed = False

    def send(self, message: bytes, more: bool = False) -> None:
        self.stream.put(message)

    async def drain(self) -> None:
        await self.stream.drain()

    async def receive(self) -> bytes | None:
        return None if self._closed and self.incoming.empty() else await self.incoming.get()

    async def close(self) -> None:
        self.stream.finish()
        self._closed = True
        if not self.incoming.full():
            self.incoming.put_nowait(None)


class LegacySSEHandler:
    """All such conversations of one application, at `listen` and `post` below where it is mounted."""

    def __init__(
        self,
        servers: Sequence[Candidate[Service]],
        sse_path: str,
        message_path: str,
        max_connections: int,
        keep_alive: KeepAliveTimer,
    ) -> None:
        self._servers = servers
        self._sse_path = sse_path
        self._message_path = message_path
        self._max_connections = max_connections
        self._keep_alive = keep_alive
        self._connections: dict[str, _LegacySSETransport] = {}

    def serves(self, path: str) -> bool:
        """Whether a path is one of the two."""
        return path in (self._sse_path, self._message_path)

    async def serve(
        self, scope: Scope, headers: Headers, auth: RequestAuth, body: Body, receive: Receive, send: Send
    ) -> None:
        """One request to one of the two; `body` waits for what it brings."""
        wanted = "GET" if path_of(scope) == self._sse_path else "POST"
        if scope["method"] != wanted:
            turned = HTTPError(405, f"this endpoint serves {wanted}")
            await send_error(send, turned, headers=[(b"allow", wanted.encode())])
        elif wanted == "GET":
            await self._serve_stream(scope, headers, auth, receive, send)
        else:
            await self._accept_message(scope, headers, auth, body, send)

    async def close(self) -> None:
        """End every conversation."""
        for pair in list(self._connections.values()):
            await pair.close()

    async def _serve_stream(
        self, scope: Scope, headers: Headers, auth: RequestAuth, receive: Receive, send: Send
    ) -> None:
        if not accepts(headers.get("accept"), EVENT_STREAM):
            return await send_error(send, HTTPError(406, f"a GET is answered by {EVENT_STREAM} alone"))
        if len(self._connections) >= self._max_connections:
            return await send_error(send, HTTPError(503, "there are too many sessions"))
        id, pair = secrets.token_urlsafe(24), _LegacySSETransport(auth)
        self._connections[id] = pair
        serving = asyncio.create_task(serve(self._servers, pair, auth))
        address = f"{scope.get('root_path', '')}{self._message_path}?session_id={id}"
        try:
            left = disconnect_task(receive, auth.expires_in)
            await send_stream(
                pair.stream, left, send, self._keep_alive, first=encode(address.encode(), kind="endpoint")
            )
        finally:
            del self._connections[id]
            await pair.close()
            await asyncio.wait([serving])

    async def _accept_message(self, scope: Scope, headers: Headers, auth: RequestAuth, body: Body, send: Send) -> None:
        if media_type(headers.get("content-type", "")) != JSON:
            return await send_error(send, HTTPError(415, f"a message is {JSON}"))
        named: Any = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])
        pair = self._connections.get(named[0])
        if pair is None or pair.owner != _owner(auth):
            return await send_error(send, HTTPError(404, "there is no such session"))
        posted = await body()
        if isinstance(posted, HTTPError):
            return await send_error(send, posted)
        await pair.incoming.put(posted)
        await respond(send, 202)


def _owner(auth: RequestAuth) -> object:
    """What is posted has to come from the user who listens, with the same scopes: it is served as what that user may."""
    return auth.owner if auth.user is None else (auth.owner, auth.user.scopes)
