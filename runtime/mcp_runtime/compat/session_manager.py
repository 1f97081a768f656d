"""`StreamableHTTPSessionManager` of the official SDK: an endpoint that an ASGI application runs itself."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import LocalError
from .lowlevel import LowLevelServer

if TYPE_CHECKING:
    from ..http.asgi import Receive, Scope, Send


@dataclass
class EventMessage:
    """A message of an SSE stream, and the id of its event."""

    message: Any
    event_id: str | None = None


class StreamEventStore(ABC):
    """`EventStore` of the official SDK: asynchronous storage for the messages of SSE streams."""

    @abstractmethod
    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store a message, and return the id of its event."""

    @abstractmethod
    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        """Send the messages after an event, and return the id of the stream."""


def warn_about_event_store(name: str) -> None:
    """Warn that the events are stored in memory instead of the store that the program has created."""
    warnings.warn(
        f"{name}: event_store is not used: streams resume from memory;"
        " write app.asgi(event_store=…) with a store of mcp_generated.http",
        RuntimeWarning,
        stacklevel=3,
    )


@dataclass
class TransportSecuritySettings:
    """The Host and Origin headers to accept; a port may be `*`."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = field(default_factory=list[str])
    allowed_origins: list[str] = field(default_factory=list[str])

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `asgi`."""
        if not self.enable_dns_rebinding_protection:
            return {"hosts": ["*"], "origins": ["*"]}
        hosts = [host.removesuffix(":*") for host in self.allowed_hosts]
        return {"hosts": hosts, "origins": [origin.removesuffix(":*") for origin in self.allowed_origins]}


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
        **limits: Any,
    ) -> None:
        """Create the endpoint.

        Args:
            app: The server.
            event_store: Warns: streams resume from a store in memory; `server.asgi(event_store=…)` takes others.
            json_response: Whether to answer each POST with JSON, never with an SSE stream.
            stateless: Whether to serve clients of versions with a handshake without sessions.
            security_settings: The Host and Origin headers to accept; by default all hosts, as there.
            retry_interval: Must be None: the interval is fixed. Raises LocalError otherwise.
            limits: None are accepted; raises LocalError that names the line to write instead.
        """
        if limits:
            raise LocalError(
                f"StreamableHTTPSessionManager: {next(iter(limits))} has no counterpart;"
                " write server.asgi(limits=HTTPLimits(…))"
            )
        if retry_interval is not None:
            raise LocalError("StreamableHTTPSessionManager: retry_interval has no counterpart; leave it out")
        if event_store is not None:
            warn_about_event_store(type(self).__name__)
        security = security_settings or TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._server = app
        self._settings = {**security.keywords(), "json_response": json_response, "stateless_http": stateless}
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
