"""`SseServerTransport` of the official SDK: the HTTP+SSE transport of 2024, as two ASGI applications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from ..aio.keepalive import KeepAliveTimer
from ..errors import LocalError
from ..http.asgi import Receive, Scope, Send, send_error
from ..http.body import BodyReader
from ..http.client_keys import user_of
from ..http.headers import Headers, HTTPError, read_headers
from ..http.origins import OriginPolicy
from ..protocol.framing import SizeLimit
from ..session.identity import RequestAuth
from ..session.interfaces import Transport
from ..transports.http_server.app import HTTPLimits
from ..transports.http_server.legacy_sse import LegacySSEHandler
from .http.accepted_hosts import TransportSecuritySettings
from .stream_ends import ServerStream, ServerStreams

_MAX_BODY: Final = 4 * 1024 * 1024


class SseServerTransport:
    """The connections of an application that serves the HTTP+SSE transport itself."""

    def __init__(
        self,
        endpoint: str,
        security_settings: TransportSecuritySettings | None = None,
        max_request_body_size: int = _MAX_BODY,
    ) -> None:
        """Create the transport.

        Args:
            endpoint: The path to which clients post messages, such as "/messages/", relative to the application.
            security_settings: The Host and Origin headers to accept; by default all hosts, as there.
            max_request_body_size: Bytes of the body of a POST.

        Raises ValueError for a URL in the place of the path, and for a size below 1.
        """
        if max_request_body_size <= 0:
            raise ValueError("SseServerTransport: max_request_body_size must be a number of bytes above 0")
        if "://" in endpoint or endpoint.startswith("//") or "?" in endpoint or "#" in endpoint:
            raise ValueError(f"SseServerTransport: {endpoint!r} is not a path; write one such as '/messages/'")
        path = "/" + endpoint.removeprefix("/")
        security = security_settings or TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._policy = OriginPolicy.create(**security.keywords())
        limits = HTTPLimits()
        self._bodies = BodyReader(
            SizeLimit(max_request_body_size, "max_request_body_size= of the server"), limits.body_timeout
        )
        self._connections = LegacySSEHandler(
            (), "", quote(path), limits.max_sessions, KeepAliveTimer(limits.keep_alive)
        )

    @asynccontextmanager
    async def connect_sse(self, scope: Scope, receive: Receive, send: Send) -> AsyncGenerator[ServerStreams]:
        """Open the connection of a GET, and yield its streams for `Server.run`; the response ends with the context.

        Args:
            scope: The ASGI scope of the request.
            receive: The ASGI function that receives its body.
            send: The ASGI function that sends the response; `request._send` in Starlette.

        Raises ValueError for a request that is refused, after its response is sent.
        """
        if scope["type"] != "http":
            raise ValueError("connect_sse: this is no HTTP request; add it as the endpoint of a route for GET")
        headers, auth = self._headers(scope), _auth_of(scope)
        if isinstance(headers, HTTPError):
            await send_error(send, headers)
            raise ValueError(f"connect_sse: {headers.reason}")
        opened: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
        ended = asyncio.Event()

        async def handle(transport: Transport) -> None:
            opened.set_result(transport)
            await ended.wait()

        streaming = asyncio.create_task(
            self._connections.serve_stream(scope, headers, auth, receive, send, handle), name="mcp sse"
        )
        waiting: set[asyncio.Future[Any]] = {opened, streaming}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            await streaming
            raise ValueError("connect_sse: the request was refused: it needs `Accept: text/event-stream`")
        transport = opened.result()

        async def serve(handler: Callable[[Transport], Awaitable[None]]) -> None:
            await handler(transport)

        stream = ServerStream(serve, auth, scope)
        try:
            yield stream, stream
        finally:
            ended.set()
            await transport.close()
            await streaming

    async def handle_post_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a POST with a message of a connection: an ASGI application."""
        if scope["type"] != "http":
            raise LocalError("handle_post_message: this is no HTTP request; mount it at the path of the endpoint")
        if scope["method"] != "POST":
            return await send_error(send, HTTPError(405, "this endpoint serves POST"), headers=[(b"allow", b"POST")])
        headers = self._headers(scope)
        if isinstance(headers, HTTPError):
            return await send_error(send, headers)
        body = partial(self._bodies.read, receive, headers.get("content-length", "").encode())
        await self._connections.accept_message(scope, headers, _auth_of(scope), body, send)

    def _headers(self, scope: Scope) -> Headers | HTTPError:
        headers = read_headers(scope["headers"])
        return headers if isinstance(headers, HTTPError) else self._policy.check(headers) or headers


def _auth_of(scope: Scope) -> RequestAuth:
    return RequestAuth(None, owner=user_of(scope))
