"""What uvicorn lacks: headers of proxies without a coroutine, a deadline for TLS handshakes, refusals that are read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from mcp_runtime.http.asgi import ASGIApp, Receive, Scope, Send

_SECONDS: Final = 1.0  # For the request of the client to come.
_MAX_WAITING: Final = 100  # Connections that are closed later at the same time; others are closed at once.


class ProxyHeaders:
    """Lets uvicorn's middleware change the scope of a request, and then calls the application instead of it.

    A stream that lasts for days so has no coroutine of the middleware.
    """

    def __init__(self, middleware: Any) -> None:
        """Use the middleware of an application."""
        self._application: ASGIApp = middleware.app
        self._middleware: Any = middleware
        middleware.app = _do_nothing

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve an ASGI connection."""
        headers = dict(scope.get("headers", ()))  # A lifespan has none.
        if b"x-forwarded-for" in headers or b"x-forwarded-proto" in headers:  # The middleware reads no others.
            run_to_end(self._middleware(scope, receive, send))
        return self._application(scope, receive, send)


def run_to_end(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing. Raises RuntimeError if it waits, so that no header is left unread."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("the middleware for the headers of proxies waits; use a release of uvicorn in which it does not")


async def _do_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Be the application of the middleware."""


# A deadline for TLS handshakes: uvicorn sees a connection when its handshake is complete, and sets none itself.


@contextmanager
def handshake_deadline(seconds: float) -> Generator[None, None, None]:
    """Let the servers with TLS that the running event loop creates meanwhile cut a handshake after so many seconds."""
    loop = cast(Any, asyncio.get_running_loop())
    create_server = loop.create_server

    async def create_with_deadline(*arguments: Any, **settings: Any) -> asyncio.Server:
        if settings.get("ssl") is not None:
            settings.setdefault("ssl_handshake_timeout", seconds)
        server: asyncio.Server = await create_server(*arguments, **settings)
        return server

    loop.create_server = create_with_deadline
    try:
        yield
    finally:
        del loop.create_server


# A connection that was refused: its client gets to read the refusal.


class RefusedConnection(asyncio.Protocol):
    """Takes the place of the protocol of a connection that is refused, and closes it after what its client has sent.

    A connection that is closed with unread bytes is reset, and then the client may not get to read the response.
    """

    waiting = 0  # Refused connections of this process that are open.

    def __init__(self, transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
        """Wait for bytes on a transport, on which the refusal was written, in place of its protocol."""
        self._transport = transport
        self._protocol = protocol
        type(self).waiting += 1
        transport.set_protocol(self)
        if transport.can_write_eof():
            transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, transport.close)

    @classmethod
    def close(cls, transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
        """Close a connection on which a refusal was written."""
        if cls.waiting < _MAX_WAITING:
            cls(transport, protocol)
        else:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Close the connection: the client has sent its request."""
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol before, which counts its connections."""
        self._timer.cancel()
        type(self).waiting -= 1
        self._protocol.connection_lost(exc)
