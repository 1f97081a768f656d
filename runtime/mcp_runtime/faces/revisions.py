"""A server or a client of one revision goes in; what serves or speaks the others of its family comes out, each made
when a conversation first needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, Generic, TypeVar, cast

from ..errors import LocalError
from ..peer import Asked, Told
from ..spec import Handshake, Notification, Revision
from .client import BaseClient, ClientContext
from .crossing import Crossing, Inside
from .face import Chosen, Face, Speaking
from .server import BaseServer, ServerContext

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
    return _every(server, revisions, lambda revision: _server_kind(revision)(server))


def clients_of(client: BaseClient, revisions: Chosen = "all") -> list[Speaking[BaseClient]]:
    """The client as one of each of these revisions, oldest first. Raises LocalError for one that there is not."""
    return _every(client, revisions, lambda revision: _client_kind(revision)(client))


def _every(face: FaceT, revisions: Chosen, make: Callable[[Revision], FaceT]) -> list[Speaking[FaceT]]:
    own = face.revision
    family = import_module(own.family)
    known: dict[str, str] = family.REVISIONS
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


class ServerFace(BaseServer):
    """A server object as one of another revision."""

    def __init__(self, inner: BaseServer) -> None:
        self._inner = inner
        self._crossing = Crossing(inner.revision, self.revision, self._receives)
        super().__init__(name=inner.name, version=inner.version, instructions=inner.instructions)
        self.lifespan = inner.lifespan  # type: ignore[method-assign]
        inner.audience.join(self)

    @property
    def source(self) -> BaseServer:
        return self._inner

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """All that the handlers announce, if anybody is there to hear it in this revision."""
        return True

    async def hear(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Tell the clients of this revision."""
        said = self._crossing.told(row, params)
        if said is not None:
            await self.audience.tell(*said)

    def _overridden(self) -> Any:
        def context(session: Inside, message: Asked | Told, outer: ServerContext) -> ServerContext:
            return self._inner.context(outer._conversation, session, message)  # pyright: ignore[reportPrivateUsage]

        return self._crossing.handlers(self._inner._handlers, context)  # pyright: ignore[reportPrivateUsage]

    def _capabilities(self, message: Any, name: str) -> Any:
        return self._crossing.declared(self._inner.capabilities)


class ClientFace(BaseClient):
    """A client object as one of another revision; it becomes the conversation of that client once it has opened."""

    def __init__(self, inner: BaseClient) -> None:
        self.inner = inner
        self.crossing = Crossing(inner.revision, self.revision, self._receives)
        super().__init__(
            inner._connect,  # pyright: ignore[reportPrivateUsage]
            name=inner.name,
            version=inner.version,
            opening=inner._opening,  # pyright: ignore[reportPrivateUsage]
            keep_alive=inner._keep_alive,  # pyright: ignore[reportPrivateUsage]
        )

    def _overridden(self) -> Any:
        def context(session: Inside, message: Asked | Told, outer: Any) -> ClientContext:
            return ClientContext(session, message, self.inner)

        return self.crossing.handlers(self.inner._handlers, context)  # pyright: ignore[reportPrivateUsage]

    def _capabilities(self, message: Any, name: str) -> Any:
        return self.crossing.declared(self.inner.capabilities)


@cache
def _server_kind(revision: Revision) -> Callable[[BaseServer], BaseServer]:
    return type("ServerFace", (ServerFace,), {"revision": revision, "context": ServerContext})


@cache
def _client_kind(revision: Revision) -> Callable[[BaseClient], BaseClient]:
    return type("ClientFace", (ClientFace,), {"revision": revision})
