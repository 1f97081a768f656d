"""A server or a client of one revision goes in; what serves or speaks the others of its family comes out, each made
when a conversation first needs it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, TypeVar

from ..client.core import ClientCore
from ..endpoint.base import Endpoint
from ..errors import LocalError
from ..protocol.revision import Handshake, Revision
from ..server.core import ServerCore
from ..session.interfaces import Candidate, RevisionChoice
from ..session.negotiation import LazyCandidate, ready_candidate

EndpointT = TypeVar("EndpointT", bound=Endpoint)
_HANDSHAKE: Final = Handshake.__name__.lower()


def server_candidates(server: ServerCore, revisions: RevisionChoice = "all") -> list[Candidate[ServerCore]]:
    """The server as one of each of these revisions, oldest first. Raises LocalError for one that there is not."""

    def made(revision: Revision) -> ServerCore:
        from .server_adapter import server_adapter_class

        return server_adapter_class(revision)(server)

    return _candidates(server, revisions, made)


def client_candidates(client: ClientCore, revisions: RevisionChoice = "all") -> list[Candidate[ClientCore]]:
    """The client as one of each of these revisions, oldest first. Raises LocalError for one that there is not."""

    def made(revision: Revision) -> ClientCore:
        from .client_adapter import client_adapter_class

        return client_adapter_class(revision)(client)

    return _candidates(client, revisions, made)


def _candidates(
    endpoint: EndpointT, revisions: RevisionChoice, make: Callable[[Revision], EndpointT]
) -> list[Candidate[EndpointT]]:
    own = endpoint.revision
    family = import_module(own.package)
    known: dict[str, str] = family.REVISIONS
    if own.id not in known and revisions == "all":
        return [ready_candidate(own, endpoint)]  # A conversation of its own, which has no other revisions.
    joined = {id for older, newer, _ in family.CONVERSIONS for id in (older, newer)} | {own.id}
    wanted = [id for id in known if id in joined] if revisions == "all" else list(revisions)
    for id in wanted:
        if id not in known or id not in joined:
            raise LocalError(f"there is no revision {id!r} beside {own.id}; there are {', '.join(known)}")

    def later(id: str) -> LazyCandidate[EndpointT]:
        def made() -> EndpointT:
            return make(import_module(f"{own.package}.{known[id]}.methods").REVISION)

        return LazyCandidate(id, family.LIFECYCLES[id] == _HANDSHAKE, made)

    found: list[Candidate[EndpointT]] = []
    for id in known:
        if id in wanted:
            found.append(ready_candidate(own, endpoint) if id == own.id else later(id))
    return found
