"""The services of a bridge: what transports drive, one for each revision."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp_runtime.protocol.connection import Connection
from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.protocol.revision import Handshake, Revision
from mcp_runtime.session.interfaces import DEFAULT_STREAM_LIMITS, Candidate, Dispatcher, Service, StreamLimits
from mcp_runtime.session.serving import ready_candidate

from ..upstream.opening import revisions_of
from ..upstream.raw import RawConnection
from ..upstream.target import Target
from .request_relay import RequestRelay
from .session_relay import SessionRelay, SharedLinks
from .state import BridgeSettings, BridgeState


class Bridge:
    """A bridge to one upstream: a service for each revision of its clients."""

    def __init__(self, target: Target, package: str, settings: BridgeSettings | None = None) -> None:
        """Create a bridge.

        Args:
            target: The server behind the bridge.
            package: The generated package with the revisions.
            settings: The settings. Default None: those of `BridgeSettings`.

        Raises LocalError for a wrong target.
        """
        self.state = BridgeState(target, package, settings or BridgeSettings())
        self._revisions = revisions_of(package)
        if self.state.settings.shared:
            self.state.shared = SharedLinks(self.state, self.state.settings.shared)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Serve; at the end, close all connections to the upstream."""
        self.state.begin()
        try:
            yield None
        finally:
            await self.state.close()

    def services(self) -> list[Service]:
        """Return a service for each revision, oldest first."""
        return [BridgeService(self, revision, self._revisions) for revision in self._revisions]

    def candidates(self) -> list[Candidate[Service]]:
        """Return the services as candidates of a negotiation."""
        return [ready_candidate(service.revision, service) for service in self.services()]


class BridgeService:
    """A bridge in one revision of its clients."""

    def __init__(self, bridge: Bridge, revision: Revision, revisions: Sequence[Revision]) -> None:
        """Create the service of a revision; `revisions` are all of the bridge."""
        self._bridge = bridge
        self.revision = revision
        self.stream_limits: StreamLimits = DEFAULT_STREAM_LIMITS
        self.capabilities: Capabilities = {}  # Those of the upstream pass in its results.
        self._stateful = [item for item in revisions if isinstance(item.lifecycle, Handshake)]
        self._stateless = [item.id for item in revisions if not isinstance(item.lifecycle, Handshake)]

    @property
    def origin(self) -> object:
        """The bridge, which all its services share."""
        return self._bridge

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Return the lifespan of the bridge."""
        return self._bridge.lifespan()

    def connection(self) -> Connection:
        """Return the server's side of a new connection, which passes all messages."""
        return RawConnection(self.revision, "server", {})

    def dispatcher(self, state: Any) -> Dispatcher:
        """Return the relay of a new connection."""
        if isinstance(self.revision.lifecycle, Handshake):
            return SessionRelay(self._bridge.state, self._stateful)
        return RequestRelay(self._bridge.state, self.revision, self._stateless, self.stream_limits)
