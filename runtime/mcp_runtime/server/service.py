"""A server of one protocol version, as transports drive it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

from ..protocol.capabilities import Capabilities
from ..protocol.connection import Connection
from ..protocol.revision import Revision
from ..session.interfaces import DEFAULT_STREAM_LIMITS, Candidate, Dispatcher, Service, StreamLimits
from ..session.left_out import report_left_out
from ..session.negotiation import LazyCandidate
from ..session.serving import RunsInThread
from ..session.tracing import OPENTELEMETRY, metrics_module
from .core import ServerCore
from .dispatcher import ServerDispatcher

_CALLS: Final = logging.getLogger("mcp_runtime.server.calls")


class ServerService:
    """A server of one protocol version, which makes a dispatcher for each connection."""

    def __init__(self, server: ServerCore, candidates: Sequence[Candidate[ServerCore]]) -> None:
        """Create the service of a server; `candidates` are the servers of all protocol versions that a client may
        negotiate."""
        self._server = server
        self._candidates = candidates
        self.stream_limits: StreamLimits = DEFAULT_STREAM_LIMITS

    @property
    def revision(self) -> Revision:
        """The protocol version of the server."""
        return self._server.revision

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the server declares."""
        return self._server.capabilities

    @property
    def origin(self) -> object:
        """The server object that the user wrote: the same for the services of all protocol versions."""
        return self._server._origin  # pyright: ignore[reportPrivateUsage]

    @property
    def runs_in_thread(self) -> RunsInThread | None:
        """Whether a request runs code of users in a worker thread only; None if none does."""
        return self._server._origin._runs_in_thread  # pyright: ignore[reportPrivateUsage]

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Return the lifespan of the server."""
        return self._server.lifespan()

    def connection(self) -> Connection:
        """Return the server's side of a new connection."""
        self._server.connected()
        connection = Connection(self.revision, "server", local_capabilities=self.capabilities)
        connection.read_params = type(self._server)._read_params  # pyright: ignore[reportPrivateUsage]
        connection.report_left_out = report_left_out
        return connection

    def dispatcher(self, state: Any) -> Dispatcher:
        """Return the dispatcher of a new connection; `state` is the value that the lifespan yielded."""
        dispatcher: Dispatcher = ServerDispatcher(self._candidates, self._server, state, self.stream_limits)
        if OPENTELEMETRY in sys.modules and (metrics := metrics_module("timed_operations")) is not None:
            origin = self._server._origin  # pyright: ignore[reportPrivateUsage]
            has_sessions = origin._shared_store is None  # pyright: ignore[reportPrivateUsage]
            dispatcher = metrics.MeteredDispatcher(dispatcher, has_sessions)
        if _CALLS.isEnabledFor(logging.DEBUG):
            from ..session.logged_dispatcher import LoggedDispatcher

            return LoggedDispatcher(dispatcher)
        return dispatcher


def service_candidates(candidates: Sequence[Candidate[ServerCore]]) -> list[Candidate[Service]]:
    """Return a service for each candidate, made when a connection first needs it."""
    return [
        LazyCandidate(candidate.revision_id, candidate.stateful, partial(_service, candidate, candidates))
        for candidate in candidates
    ]


def _service(candidate: Candidate[ServerCore], candidates: Sequence[Candidate[ServerCore]]) -> Service:
    return ServerService(candidate.get(), candidates)
