"""The server side of the HTTP+SSE transport of 2024: a GET opens an SSE stream, which names the URL to POST to.

MCP specification of the first revision, Transports, "HTTP with SSE".
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

from ...aio.keepalive import KeepAliveTimer
from ...http.asgi import Receive, Scope, Send, disconnect_task, path_of, respond, send_error
from ...http.headers import EVENT_STREAM, JSON, Headers, HTTPError, accepts, media_type
from ...protocol.sse import encode
from ...session.identity import RequestAuth
from ...session.interfaces import Candidate, Service
from ...session.serving import serve
from .event_store import InMemoryEventStore
from .stream_response import send_stream
from .streams import SSEStream

_QUEUE_SIZE: Final = 256  # Unread messages of one client; then the next POST waits.

Body = Callable[[], Awaitable[bytes | HTTPError]]


class _LegacySSETransport:
    """The transport of one connection: receives posted messages, and sends messages on the SSE stream."""

    kind = "sse"
    close_reason = "the client closed its SSE stream"

    def __init__(self, auth: RequestAuth) -> None:
        self.owner = _owner(auth)
        self.stream = SSEStream(InMemoryEventStore(), resumable=False)
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_SIZE)
        self._closed = False

    def send(self, message: bytes, more: bool = False) -> None:
        """Put a message on the SSE stream."""
        self.stream.put(message)

    async def drain(self) -> None:
        """Wait until few messages are unsent."""
        await self.stream.drain()

    async def receive(self) -> bytes | None:
        """Return the next posted message, or None at the end of the connection."""
        return None if self._closed and self.incoming.empty() else await self.incoming.get()

    async def close(self) -> None:
        """End the SSE stream."""
        self.stream.finish()
        self._closed = True
        if not self.incoming.full():
            self.incoming.put_nowait(None)


class LegacySSEHandler:
    """All HTTP+SSE connections of one application."""

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
        """Return True if this is the path of one of the two endpoints."""
        return path in (self._sse_path, self._message_path)

    async def serve(
        self, scope: Scope, headers: Headers, auth: RequestAuth, body: Body, receive: Receive, send: Send
    ) -> None:
        """Serve a request to one of the two endpoints; `body` reads its body."""
        method = "GET" if path_of(scope) == self._sse_path else "POST"
        if scope["method"] != method:
            error = HTTPError(405, f"this endpoint serves {method}")
            await send_error(send, error, headers=[(b"allow", method.encode())])
        elif method == "GET":
            await self._serve_stream(scope, headers, auth, receive, send)
        else:
            await self._accept_message(scope, headers, auth, body, send)

    async def close(self) -> None:
        """End all connections."""
        for transport in list(self._connections.values()):
            await transport.close()

    async def _serve_stream(
        self, scope: Scope, headers: Headers, auth: RequestAuth, receive: Receive, send: Send
    ) -> None:
        if not accepts(headers.get("accept"), EVENT_STREAM):
            return await send_error(send, HTTPError(406, f"a GET needs {EVENT_STREAM} in its Accept header"))
        if len(self._connections) >= self._max_connections:
            return await send_error(send, HTTPError(503, "there are too many sessions"))
        id, transport = secrets.token_urlsafe(24), _LegacySSETransport(auth)
        self._connections[id] = transport
        serving = asyncio.create_task(serve(self._servers, transport, auth, scope))
        url = f"{scope.get('root_path', '')}{self._message_path}?session_id={id}"
        try:
            disconnect = disconnect_task(receive, auth.expires_in)
            endpoint_event = encode(url.encode(), kind="endpoint")
            await send_stream(transport.stream, disconnect, send, self._keep_alive, first=endpoint_event)
        finally:
            del self._connections[id]
            await transport.close()
            await asyncio.wait([serving])

    async def _accept_message(self, scope: Scope, headers: Headers, auth: RequestAuth, body: Body, send: Send) -> None:
        if media_type(headers.get("content-type", "")) != JSON:
            return await send_error(send, HTTPError(415, f"the content type of a message has to be {JSON}"))
        ids: Any = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])
        transport = self._connections.get(ids[0])
        if transport is None or transport.owner != _owner(auth):
            return await send_error(send, HTTPError(404, "there is no such session"))
        message = await body()
        if isinstance(message, HTTPError):
            return await send_error(send, message)
        await transport.incoming.put(message)
        await respond(send, 202)


def _owner(auth: RequestAuth) -> object:
    """Return what a POST and the GET of its stream need to have in common: the user, and the scopes of the token.

    Messages are handled with the authentication of the GET.
    """
    return auth.owner if auth.user is None else (auth.owner, auth.user.scopes)
