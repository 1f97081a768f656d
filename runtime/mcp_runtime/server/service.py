"""A server of one protocol version, as transports drive it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from ..protocol.capabilities import Capabilities
from ..protocol.revision import Revision
from ..session.interfaces import Candidate, Service
from ..session.negotiation import LazyCandidate
from .core import ServerCore
from .dispatcher import ServerDispatcher


class ServerService:
    """Make a dispatcher for each connection to a server. `candidates` are the server in each protocol version that a
    client may negotiate instead."""

    def __init__(self, server: ServerCore, candidates: Sequence[Candidate[ServerCore]]) -> None:
        self._server = server
        self._candidates = candidates

    @property
    def revision(self) -> Revision:
        return self._server.revision

    @property
    def capabilities(self) -> Capabilities:
        return self._server.capabilities

    @property
    def origin(self) -> object:
        return self._server.origin

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Return the lifespan of the server whose handlers these are."""
        return self._server.lifespan()

    def dispatcher(self, state: Any) -> ServerDispatcher:
        """Make the dispatcher of a new connection; `state` is what the lifespan yielded."""
        return ServerDispatcher(self._candidates, self._server, state)


def service_candidates(candidates: Sequence[Candidate[ServerCore]]) -> list[Candidate[Service]]:
    """Return a service for each candidate, made when a connection first needs it."""
    return [
        LazyCandidate(candidate.revision_id, candidate.stateful, partial(_service, candidate, candidates))
        for candidate in candidates
    ]


def _service(candidate: Candidate[ServerCore], candidates: Sequence[Candidate[ServerCore]]) -> Service:
    return ServerService(candidate.get(), candidates)
