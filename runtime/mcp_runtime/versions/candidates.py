"""The candidates of a negotiation: a server or a client in each protocol version, created on first use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from .._lazy import load
from ..endpoint.base import Endpoint
from ..errors import LocalError
from ..protocol.revision import Handshake, Revision
from ..server.core import ServerCore
from ..session.interfaces import Candidate, RevisionChoice
from ..session.negotiation import LazyCandidate, ready_candidate

if TYPE_CHECKING:
    from ..client.core import ClientCore

EndpointT = TypeVar("EndpointT", bound=Endpoint)
_HANDSHAKE: Final = Handshake.__name__.lower()


def server_candidates(server: ServerCore, revisions: RevisionChoice = "all") -> list[Candidate[ServerCore]]:
    """Return a server for each of these protocol versions, oldest first.

    Args:
        server: The server to adapt.
        revisions: The protocol versions: "all", or their ids.

    Raises LocalError for an unknown id.
    """

    def adapt(revision: Revision) -> ServerCore:
        from .server_adapter import server_adapter_class

        return server_adapter_class(revision)(server)

    return _candidates(server, revisions, adapt)


def client_candidates(client: ClientCore, revisions: RevisionChoice = "all") -> list[Candidate[ClientCore]]:
    """Return a client for each of these protocol versions, oldest first.

    Args:
        client: The client to adapt.
        revisions: The protocol versions: "all", or their ids.

    Raises LocalError for an unknown id.
    """

    def adapt(revision: Revision) -> ClientCore:
        from .client_adapter import client_adapter_class

        return client_adapter_class(revision)(client)

    return _candidates(client, revisions, adapt)


def _candidates(
    endpoint: EndpointT, revisions: RevisionChoice, adapt: Callable[[Revision], EndpointT]
) -> list[Candidate[EndpointT]]:
    own = endpoint.revision
    package = import_module(own.package)
    modules: dict[str, str] = package.REVISIONS
    if own.id not in modules and revisions == "all":
        return [ready_candidate(own, endpoint)]  # The protocol of an extension, which has no other versions.
    convertible = {id for older, newer, _ in package.CONVERSIONS for id in (older, newer)} | {own.id}
    requested = [id for id in modules if id in convertible] if revisions == "all" else list(revisions)
    for id in requested:
        if id not in modules or id not in convertible:
            raise LocalError(f"there is no protocol version {id!r} besides {own.id}; there are {', '.join(modules)}")

    def lazy_candidate(id: str) -> LazyCandidate[EndpointT]:
        def create() -> EndpointT:
            return adapt(load(f"{own.package}.{modules[id]}.methods").REVISION)

        return LazyCandidate(id, package.LIFECYCLES[id] == _HANDSHAKE, create)

    candidates: list[Candidate[EndpointT]] = []
    for id in modules:
        if id in requested:
            candidates.append(ready_candidate(own, endpoint) if id == own.id else lazy_candidate(id))
    return candidates
