"""`StreamableHTTPSessionManager` of the official SDK: an endpoint that an ASGI application runs itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_products.app.settings import ServerSettings
from mcp_runtime.errors import LocalError

from .http import TransportSecuritySettings, to_event_store
from .lowlevel import LowLevelServer

if TYPE_CHECKING:
    from mcp_runtime.http.asgi import Receive, Scope, Send


class StreamableHTTPSessionManager:
    """An HTTP endpoint of a low-level server."""

    def __init__(
        self,
        app: LowLevelServer[Any, Any],
        event_store: Any = None,
        json_response: bool = False,
        stateless: bool = False,
        security_settings: TransportSecuritySettings | None = None,
        retry_interval: int | None = None,
        *,
        session_idle_timeout: float | None = None,
        max_request_body_size: int | None = None,
        max_sessions: int | None = None,
    ) -> None:
        """Create the endpoint.

        Args:
            app: The server.
            event_store: Gets the messages of all SSE streams: one of the official SDK, or of `mcp_generated.http`.
            json_response: Whether to answer each POST with JSON, never with an SSE stream.
            stateless: Whether to serve clients of versions with a handshake without sessions.
            security_settings: The Host and Origin headers to accept; by default all hosts, as there.
            retry_interval: Milliseconds after which a client reconnects to a closed SSE stream; by default 500.
            session_idle_timeout: Seconds after its last use at which a session ends.
            max_request_body_size: Bytes of the body of a request.
            max_sessions: Sessions that are open at the same time.
        """
        settings = ServerSettings(
            event_store=to_event_store(event_store),
            json_response=json_response,
            stateless_http=stateless,
            retry_interval=retry_interval,
            session_idle_timeout=session_idle_timeout,
            max_request_body_size=max_request_body_size,
            max_sessions=max_sessions,
        )
        security = security_settings or TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._server = app
        self._settings = {**security.keywords(), **settings.asgi_settings()}
        self._endpoint: Any = None

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve requests until the context ends."""
        self._endpoint = self._server.asgi(**self._settings)
        try:
            yield
        finally:
            await self._endpoint.close()

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request. Raises LocalError outside of `run`."""
        if self._endpoint is None:
            raise LocalError("StreamableHTTPSessionManager: handle_request needs `async with manager.run()` around it")
        await self._endpoint(scope, receive, send)

    __call__ = handle_request
