"""The server side of the HTTP+SSE transport of 2024: a GET opens an SSE stream, which names the URL to POST to.

MCP specification of the first revision, Transports, "HTTP with SSE".
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs

from mcp_runtime.aio.tasks import SharedLifespan
from mcp_runtime.http.asgi import Receive, Scope, Send, disconnection, path_of, respond, send_error
from mcp_runtime.http.headers import EVENT_STREAM, JSON, Headers, HTTPError, accepts, media_type
from mcp_runtime.http.sse import encode
from mcp_runtime.session.interfaces import Candidate, RequestAuth, Service, Transport
from mcp_runtime.session.serving import serve
from mcp_runtime.transports.http_server.events import InMemoryEventStore
from mcp_runtime.transports.http_server.streams import KeepAliveTimer, SSEStream, send_stream

_QUEUE_SIZE: Final = 256  # Unread messages of one client; then the next POST waits.
_QUEUE_BYTES: Final = 16 * 1024 * 1024  # Bytes of those and of the POSTs that wait; then the next POST is refused.

_NO_SESSION: Final = HTTPError(404, "there is no such session")

Body = Callable[[], Awaitable[bytes | HTTPError]]
Handle = Callable[[Transport], Awaitable[None]]
Post = Callable[[bytes], Awaitable[HTTPError | None]]


class LegacySSETransport:
    """The transport of one connection: receives posted messages, and sends messages on the SSE stream."""

    kind = "sse"
    close_reason = "the client closed its SSE stream"

    def __init__(self, auth: RequestAuth) -> None:
        self.owner = owner_of(auth)
        self.stream = SSEStream(InMemoryEventStore(), resumable=False)
        self.is_closed = False
        self._incoming: deque[bytes] = deque()
        self._size = 0  # Bytes of the unread messages, and of those whose POSTs wait.
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()

    async def post(self, message: bytes) -> HTTPError | None:
        """Add a posted message, as soon as there is room. Return the error of a POST that is refused."""
        if self._size and self._size + len(message) > _QUEUE_BYTES:
            return HTTPError(503, "too many messages are unread: read the SSE stream, and send again", retry_after=1)
        self._size += len(message)
        while len(self._incoming) >= _QUEUE_SIZE and not self.is_closed:
            self._room.clear()
            await self._room.wait()
        if self.is_closed:
            return _NO_SESSION
        self._incoming.append(message)
        self._arrived.set()
        return None

    def send(self, message: bytes, more: bool = False) -> None:
        """Put a message on the SSE stream."""
        self.stream.put(message)

    async def drain(self) -> None:
        """Wait until few messages are unsent."""
        await self.stream.drain()

    async def receive(self) -> bytes | None:
        """Return the next posted message, or None at the end of the connection."""
        while not self._incoming:
            if self.is_closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        message = self._incoming.popleft()
        self._size -= len(message)
        self._room.set()
        return message

    async def close(self) -> None:
        """End the SSE stream; nobody gets the responses to messages that are unread."""
        self.stream.finish()
        self.is_closed = True
        self._incoming.clear()
        self._arrived.set()
        self._room.set()


class ServiceOfEndpoint:
    """A service whose lifespan is that of the endpoint: its conversations end before."""

    def __init__(self, service: Service, lifespan: SharedLifespan) -> None:
        """Use a service, and the lifespan of the endpoint."""
        self._service = service
        self._lifespan = lifespan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[Any]:
        """Yield what the lifespan has yielded; it goes on when a conversation ends."""
        yield await self._lifespan.state()


class LegacySSEHandler:
    """All HTTP+SSE connections of one application."""

    def __init__(
        self,
        servers: Sequence[Candidate[Service]],
        max_connections: int,
        keep_alive: KeepAliveTimer,
        sse_path: str = "/sse",
        message_path: str = "/messages",
    ) -> None:
        self._servers = servers
        self._sse_path = sse_path
        self._message_path = message_path
        self._max_connections = max_connections
        self._keep_alive = keep_alive
        self._connections: dict[str, LegacySSETransport] = {}

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
            await self.serve_stream(scope, headers, auth, receive, send)
        else:
            await self.accept_message(scope, headers, auth, body, send)

    async def close(self) -> None:
        """End all connections."""
        for transport in list(self._connections.values()):
            await transport.close()

    async def serve_stream(
        self,
        scope: Scope,
        headers: Headers,
        auth: RequestAuth,
        receive: Receive,
        send: Send,
        handle: Handle | None = None,
    ) -> None:
        """Open a connection with a GET, and send its stream.

        `handle` serves the connection: a function of its transport; by default the servers do.
        """
        if not accepts(headers.get("accept"), EVENT_STREAM):
            return await send_error(send, HTTPError(406, f"a GET needs {EVENT_STREAM} in its Accept header"))
        if len(self._connections) >= self._max_connections:
            return await send_error(send, HTTPError(503, "there are too many sessions", retry_after=2))
        id, transport = await self._new_id(auth), LegacySSETransport(auth)
        self._connections[id] = transport
        serving = asyncio.ensure_future(
            serve(self._servers, transport, auth, scope) if handle is None else handle(transport)
        )
        url = f"{scope.get('root_path', '')}{self._message_path}?session_id={id}"
        try:
            disconnect = disconnection(receive, auth.expires_in)
            endpoint_event = encode(url.encode(), kind="endpoint")
            await send_stream(transport.stream, disconnect, send, self._keep_alive, first=endpoint_event)
        finally:
            await transport.close()
            await asyncio.wait([serving])  # The connection counts until its handlers have ended.
            del self._connections[id]

    async def accept_message(self, scope: Scope, headers: Headers, auth: RequestAuth, body: Body, send: Send) -> None:
        """Serve a POST with a message of one of the connections."""
        if media_type(headers.get("content-type", "")) != JSON:
            return await send_error(send, HTTPError(415, f"the content type of a message has to be {JSON}"))
        ids: Any = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])
        post = await self._post(ids[0], auth)
        if post is None:
            return await send_error(send, _NO_SESSION)
        message = await body()
        if isinstance(message, HTTPError):
            return await send_error(send, message)
        if (error := await post(message)) is not None:
            return await send_error(send, error)
        await respond(send, 202)

    async def _new_id(self, auth: RequestAuth) -> str:
        """Return the id of a new connection."""
        return secrets.token_urlsafe(24)

    async def _post(self, id: str, auth: RequestAuth) -> Post | None:
        """Return the function that posts a message to a connection; None if there is none of this owner."""
        transport = self._connections.get(id)
        if transport is None or transport.is_closed or transport.owner != owner_of(auth):
            return None
        return transport.post


def owner_of(auth: RequestAuth) -> object:
    """Return what a POST and the GET of its stream need to have in common: the user, and the scopes of the token.

    Messages are handled with the authentication of the GET.
    """
    return auth.owner if auth.user is None else (auth.owner, auth.user.scopes)
