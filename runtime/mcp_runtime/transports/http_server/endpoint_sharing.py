"""What an HTTP endpoint needs to be one of several that share their sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...aio.keepalive import KeepAliveTimer
from ...aio.lifespan import SharedLifespan
from ...http.asgi import Send
from ...session.interfaces import Candidate, Service
from .http_limits import HTTPLimits
from .legacy_sse import LegacySSEHandler
from .responders import SessionResponder
from .sessions import SessionStore
from .stateful import StatefulHandler


class EndpointSharing(Protocol):
    """The part of an endpoint that is about other workers."""

    is_open: bool

    def bind(self, lifespan: SharedLifespan) -> None:
        """Use the lifespan of the server, before the endpoint starts."""
        ...

    def stateful(
        self,
        servers: Sequence[Service],
        lifespans: Mapping[int, SharedLifespan],
        sessions: SessionStore,
        keep_alive: KeepAliveTimer,
        responder_class: type[SessionResponder],
        limits: HTTPLimits,
    ) -> StatefulHandler:
        """Return the handler of sessions."""
        ...

    def legacy_sse(
        self, servers: Sequence[Candidate[Service]], max_connections: int, keep_alive: KeepAliveTimer
    ) -> LegacySSEHandler:
        """Return the handler of HTTP+SSE."""
        ...

    async def start(self) -> None:
        """Connect to the other workers, when the process starts."""
        ...

    async def serve(self, send: Send) -> bool:
        """Connect to the other workers, if that is still to be done. Return False if the request was answered."""
        ...

    async def is_ready(self) -> bool:
        """Return True if requests can be served."""
        ...

    async def close(self) -> None:
        """Store what is still to be stored, and leave the other workers."""
        ...
