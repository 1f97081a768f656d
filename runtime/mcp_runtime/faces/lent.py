"""A server or a client of one revision and another revision go in; the same object as one of that comes out, which
converts what is said. Loaded when a conversation first needs it: most are of the revision the object was written for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from pydantic import BaseModel

from ..lifecycle import merge
from ..peer import Asked, Told
from ..session import Session
from ..spec import META, Handshake, Notification, Revision, Stateless
from .calls import Options
from .client import BaseClient, ClientContext
from .conversation import NO_CACHE
from .crossing import Crossing, Inside
from .server import BaseServer, ServerContext


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
            made = self._inner.context(outer._conversation, session, message)  # pyright: ignore[reportPrivateUsage]
            made._rounds = outer._rounds  # pyright: ignore[reportPrivateUsage]
            return made

        return self._crossing.handlers(self._inner._handlers, context)  # pyright: ignore[reportPrivateUsage]

    def _capabilities(self, message: Any, name: str) -> Any:
        return self._crossing.declared(self._inner.capabilities)


class ClientFace(BaseClient):
    """A client object as one of another revision; once a conversation has opened, the client goes on with it."""

    def __init__(self, inner: BaseClient) -> None:
        self._inner = inner
        self._crossing = Crossing(inner.revision, self.revision, self._receives)
        super().__init__(
            inner._connect,  # pyright: ignore[reportPrivateUsage]
            name=inner.name,
            version=inner.version,
            opening=inner._opening,  # pyright: ignore[reportPrivateUsage]
            keep_alive=inner._keep_alive,  # pyright: ignore[reportPrivateUsage]
            cache=inner._cache or False,  # pyright: ignore[reportPrivateUsage]
        )
        self._folders = inner._folders  # pyright: ignore[reportPrivateUsage]
        self.hearing.inward = self._crossing.heard

    def hand_back(self) -> None:
        """Let the client have the conversation: what it says is converted on the way out."""
        inner, session = self._inner, self._live()
        inner._session = cast(Any, Lent(self._crossing, session, self))  # pyright: ignore[reportPrivateUsage]
        inner._running, inner._beside = self._running, self._beside  # pyright: ignore[reportPrivateUsage]
        inner.hearing = self.hearing
        self._running, self._beside = None, []
        if isinstance(inner.revision.lifecycle, Stateless):
            inner._own_meta = {  # pyright: ignore[reportPrivateUsage]
                f"{META}protocolVersion": inner.revision.id,
                f"{META}clientCapabilities": inner.capabilities,
            }
        assert self.server is not None
        inner.server = opened_as(self._crossing, self.server)

    def _overridden(self) -> Any:
        def context(session: Inside, message: Asked | Told, outer: Any) -> ClientContext:
            return ClientContext(session, message, self._inner)

        return self._crossing.handlers(self._inner._handlers, context)  # pyright: ignore[reportPrivateUsage]

    def _capabilities(self, message: Any, name: str) -> Any:
        declared = self._crossing.declared(self._inner.capabilities)
        if (folders := self._inner._folders) is not None:  # pyright: ignore[reportPrivateUsage]
            merge(declared, folders.declared(self.revision))
        return declared


class Lent(Inside):
    """The session of a conversation, as a client of another revision has it: what it asks is asked by its face, which
    also answers the questions that come instead of a result."""

    def __init__(self, crossing: Crossing, session: Session, face: ClientFace) -> None:
        super().__init__(crossing, session)
        self._whole = session
        self._face = face

    async def _asked(self, outside: Any, made: Any, *how: Any) -> Any:
        timeout, on_progress, longest = how
        options = Options(timeout=timeout, max_timeout=longest, on_progress=on_progress)
        return await self._face._ask(outside, made, options)  # pyright: ignore[reportPrivateUsage]

    async def close(self) -> None:
        """End the conversation."""
        await self._whole.close()


def opened_as(crossing: Crossing, server: BaseModel) -> BaseModel:
    """What a server said of itself when the conversation opened, as a client of the inner revision expects it."""
    said = server.model_dump()
    inner, outer = crossing.inner.lifecycle, crossing.outer.lifecycle
    if isinstance(inner, Handshake) and isinstance(outer, Handshake):
        row = inner.open
        said = crossing.inward.result(row.direction, row.method, said)
        return row.read_result({**said, "protocolVersion": crossing.inner.id})
    told = {"capabilities": crossing.capabilities(said["capabilities"]), "instructions": said.get("instructions")}
    known = {name: value for name, value in told.items() if value is not None}
    if isinstance(inner, Handshake):
        who = said.get("_meta", {}).get(f"{META}serverInfo", {"name": "", "version": ""})
        return inner.open.read_result({**known, "protocolVersion": crossing.inner.id, "serverInfo": who})
    who = {f"{META}serverInfo": said["serverInfo"]}
    more = {**NO_CACHE, "supportedVersions": [crossing.outer.id], "_meta": who}
    return inner.discover.read_result({**known, **more})


@cache
def server_kind(revision: Revision) -> Callable[[BaseServer], BaseServer]:
    """What makes a server object one of this revision."""
    return type("ServerFace", (ServerFace,), {"revision": revision, "context": ServerContext})


@cache
def client_kind(revision: Revision) -> Callable[[BaseClient], BaseClient]:
    """What makes a client object one of this revision."""
    return type("ClientFace", (ClientFace,), {"revision": revision})
