"""A server or a client of one revision goes in; what serves or speaks the others of its family comes out, each made
when a conversation first needs it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from ..errors import LocalError
from ..spec import Handshake, Revision
from .face import Chosen, Extension, Face, Speaking

if TYPE_CHECKING:
    from .client import BaseClient
    from .server import BaseServer

FaceT = TypeVar("FaceT", bound=Face)

_HANDSHAKE: Final = Handshake.__name__.lower()


class Later(Generic[FaceT]):
    """A face that is made when it is first needed."""

    def __init__(self, speaks: str, shakes_hands: bool, make: Callable[[], FaceT]) -> None:
        self.speaks = speaks
        self.shakes_hands = shakes_hands
        self._make = make
        self._made: FaceT | None = None

    def face(self) -> FaceT:
        if self._made is None:
            self._made = self._make()
        return self._made


def servers_of(server: BaseServer, revisions: Chosen = "all") -> list[Speaking[BaseServer]]:
    """The server as one of each of these revisions, oldest first. Raises LocalError for one that there is not."""

    def made(revision: Revision) -> BaseServer:
        from .lent import server_kind

        return server_kind(revision)(server)

    return _every(server, revisions, made)


def clients_of(client: BaseClient, revisions: Chosen = "all") -> list[Speaking[BaseClient]]:
    """The client as one of each of these revisions, oldest first. Raises LocalError for one that there is not."""

    def made(revision: Revision) -> BaseClient:
        from .lent import client_kind

        return client_kind(revision)(client)

    return _every(client, revisions, made)


def extension_of(revision: Revision, name: str) -> Extension:
    """The package of an extension, of the family of a revision. Raises LocalError where there is none."""
    try:
        found: Any = import_module(f"{revision.family}.extensions.{name}")
    except ImportError:
        raise LocalError(f"{revision.family} has no extension {name!r}") from None
    return cast("Extension", found)


def _every(face: FaceT, revisions: Chosen, make: Callable[[Revision], FaceT]) -> list[Speaking[FaceT]]:
    own = face.revision
    family = import_module(own.family)
    known: dict[str, str] = family.REVISIONS
    if own.id not in known and revisions == "all":
        return [cast("Speaking[FaceT]", face)]  # A conversation of its own, which has no other revisions.
    joined = {id for older, newer, _ in family.STEPS for id in (older, newer)} | {own.id}
    wanted = [id for id in known if id in joined] if revisions == "all" else list(revisions)
    for id in wanted:
        if id not in known or id not in joined:
            raise LocalError(f"there is no revision {id!r} beside {own.id}; there are {', '.join(known)}")

    def later(id: str) -> Later[FaceT]:
        def made() -> FaceT:
            return make(import_module(f"{own.family}.{known[id]}.methods").REVISION)

        return Later(id, family.LIFECYCLES[id] == _HANDSHAKE, made)

    found: list[Speaking[FaceT]] = []
    for id in known:
        if id in wanted:
            found.append(cast("Speaking[FaceT]", face) if id == own.id else later(id))
    return found
