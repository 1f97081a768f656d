"""A server or a client of one revision goes in; what serves or speaks the others of its family comes out, each made
when a conversation first needs it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from ..errors import LocalError
from ..spec import Handshake, Revision
from .face import RevisionChoice, Extension, Endpoint, Candidate

if TYPE_CHECKING:
    from .client import BaseClient
    from .server import BaseServer

EndpointT = TypeVar("EndpointT", bound=Endpoint)

_HANDSHAKE: Final = Handshake.__name__.lower()


class LazyCandidate(Generic[EndpointT]):
    """A face that is made when it is first needed."""

    def __init__(self, revision_id: str, stateful: bool, make: Callable[[], EndpointT]) -> None:
        self.revision_id = revision_id
        self.stateful = stateful
        self._make = make
        self._made: EndpointT | None = None

    def get(self) -> EndpointT:
        if self._made is None:
            self._made = self._make()
        return self._made


def server_candidates(server: BaseServer, revisions: RevisionChoice = "all") -> list[Candidate[BaseServer]]:
    """The server as one of each of these revisions, oldest first. Raises LocalError for one that there is not."""

    def made(revision: Revision) -> BaseServer:
        from .lent import server_adapter_class

        return server_adapter_class(revision)(server)

    return _candidates(server, revisions, made)


def client_candidates(client: BaseClient, revisions: RevisionChoice = "all") -> list[Candidate[BaseClient]]:
    """The client as one of each of these revisions, oldest first. Raises LocalError for one that there is not."""

    def made(revision: Revision) -> BaseClient:
        from .lent import client_adapter_class

        return client_adapter_class(revision)(client)

    return _candidates(client, revisions, made)


def load_extension(revision: Revision, name: str) -> Extension:
    """The package of an extension, of the family of a revision. Raises LocalError where there is none."""
    try:
        found: Any = import_module(f"{revision.package}.extensions.{name}")
    except ImportError:
        raise LocalError(f"{revision.package} has no extension {name!r}") from None
    return cast("Extension", found)


def _candidates(
    endpoint: EndpointT, revisions: RevisionChoice, make: Callable[[Revision], EndpointT]
) -> list[Candidate[EndpointT]]:
    own = endpoint.revision
    family = import_module(own.package)
    known: dict[str, str] = family.REVISIONS
    if own.id not in known and revisions == "all":
        return [cast("Candidate[EndpointT]", endpoint)]  # A conversation of its own, which has no other revisions.
    joined = {id for older, newer, _ in family.STEPS for id in (older, newer)} | {own.id}
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
            found.append(cast("Candidate[EndpointT]", endpoint) if id == own.id else later(id))
    return found
