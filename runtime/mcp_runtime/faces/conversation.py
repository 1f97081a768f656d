"""What one client says goes in, and the answers come out: of its server's handlers, or the runtime's own."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from pydantic_core import to_json

from ..errors import Refusal
from ..peer import Asked, Peer, Told
from ..seams import Speaker
from ..session import Session
from ..spec import META, Handshake, Notification, Request, Sent, Stateless
from .audience import Listener, Watched, agreed
from .behind import Behind
from .face import LEVELS, Handler, Speaking
from .guards import check_scopes
from .questions import check_questions
from .rates import Allowance
from .rounds import Rounds, Suspended
from .tracing import is_tracing, within_trace

if TYPE_CHECKING:
    from .served import ServerContext
    from .server import BaseServer

NO_CACHE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Conversation:
    """One client, served by that one of the servers whose revision it speaks."""

    __slots__ = ("state", "level", "client_info", "log_pace", "_servers", "_server", "_session", "_watched",
                 "_listeners", "_behind", "__weakref__")  # fmt: skip

    def __init__(self, servers: Sequence[Speaking[BaseServer]], chosen: BaseServer, state: Any) -> None:
        self._servers = servers
        self._server = chosen
        self.state = state
        self.level: str | None = LEVELS[0] if isinstance(chosen.revision.lifecycle, Handshake) else None
        self.client_info: dict[str, Any] = {}
        # Most clients need none of these, and there may be very many of them.
        self.log_pace: Allowance | None = None
        self._session: Session | None = None
        self._watched: Watched | None = None
        self._listeners: set[Listener] | None = None
        self._behind: Behind | None = None

    @property
    def behind(self) -> Behind:
        """The work that goes on behind answers, until the conversation ends."""
        if self._behind is None:
            self._behind = Behind()
        return self._behind

    def attend(self, session: Session) -> None:
        """The client of this session hears of changes, once the conversation is open."""
        self._session = session

    def leave(self) -> None:
        """The client hears of nothing any more; who listens is told that this is the end."""
        self._server.audience.leave(self)
        for listener in self._listeners or ():
            listener.end()

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Whether the client wants to hear of a change: of a resource only if it watches that."""
        return "uri" not in params or (self._watched is not None and params["uri"] in self._watched)

    async def hear(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Tell the client."""
        if self._session is not None:
            await self._session.tell(row, params)

    def handle(self, session: Speaker, message: Asked | Told, traced: bool = False) -> Coroutine[Any, Any, Any]:
        """The answer to a message, to be awaited: that of its handler, where it is no message of the lifecycle."""
        if is_tracing() and not traced:
            return within_trace(partial(self.handle, traced=True), session, message)
        server = self._server
        handler = server._further.get(message.row.method)  # pyright: ignore[reportPrivateUsage]
        if handler is None:
            return self._handle(session, message)
        if isinstance(message, Asked) and type(server.revision.lifecycle) is Stateless:
            return self._run(handler, session, message)
        answer: Coroutine[Any, Any, Any] = handler(server.context(self, session, message), message.params)
        return answer

    async def _handle(self, session: Speaker, message: Asked | Told) -> Any:
        """The answer to a message of the lifecycle, or to one that has no handler."""
        server, row = self._server, message.row
        if isinstance(message, Told):
            return None
        lifecycle = server.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            if message.params.meta.protocol_version != server.revision.id:
                raise self._unspoken(message)
            if row is lifecycle.discover:
                return self._discovered(message.row)
            if row is lifecycle.listen:
                return await self._listen(session, message, lifecycle)
        elif row.method == lifecycle.probe.method:
            return message.row.result()
        elif lifecycle.level is not None and row.method == lifecycle.level.method:
            self.level = message.params.level
        handler = server._handlers.get(row.method)  # pyright: ignore[reportPrivateUsage]
        if handler is not None:
            answer = await handler(server.context(self, session, message), message.params)
        elif self._is_kept_here(row):
            check_scopes(server.context(self, session, message), server.source.scopes, message)
            answer = message.row.result()
        else:
            raise server._not_handled(row)  # pyright: ignore[reportPrivateUsage]
        if isinstance(lifecycle, Handshake):
            self._note_watched(lifecycle, message)
        return answer

    async def _run(self, handler: Handler, session: Speaker, asked: Asked) -> Any:
        """What a handler answers where nothing is remembered of the client: what it asks becomes a result."""
        server = self._server
        if asked.params.meta.protocol_version != server.revision.id:
            raise self._unspoken(asked)
        if asked.row.asks is None:
            answer = await handler(server.context(self, session, asked), asked.params)
        else:
            rounds = Rounds(session, asked, self)
            ctx = server.context(self, rounds, asked)
            ctx._rounds = rounds  # pyright: ignore[reportPrivateUsage]
            try:
                answer = await handler(ctx, asked.params)
            except (Suspended, BaseExceptionGroup) as end:
                answer = rounds.questions(end)
        if type(answer) is not asked.row.result:
            check_questions(server.revision, self.outside(session, asked).capabilities, answer)
        return answer

    @property
    def source(self) -> BaseServer:
        """The server whose handlers these are."""
        return self._server.source

    def outside(self, session: Speaker, asked: Asked) -> ServerContext:
        """A context of a request itself, where that of its handler is within rounds."""
        return self._server.context(self, session, asked)

    def _is_kept_here(self, row: Sent) -> bool:
        """Whether a request needs no handler, because what it is about is known here."""
        lifecycle = self._server.revision.lifecycle
        if not isinstance(lifecycle, Handshake):
            return False
        roles = (lifecycle.level, lifecycle.subscribe, lifecycle.unsubscribe)
        return row.method in {each.method for each in roles if each is not None}

    def _note_watched(self, lifecycle: Handshake, message: Asked | Told) -> None:
        if lifecycle.subscribe is not None and message.row.method == lifecycle.subscribe.method:
            self._watched = self._watched or Watched()
            self._watched.add(message.params.uri)
        elif lifecycle.unsubscribe is not None and message.row.method == lifecycle.unsubscribe.method:
            if self._watched is not None:
                self._watched.discard(message.params.uri)

    async def _listen(self, session: Speaker, asked: Asked, lifecycle: Stateless) -> BaseModel:
        """Let a client listen until it or the server ends that, and say that this was the end."""
        server = self._server
        check_scopes(server.context(self, session, asked), server.source.scopes, asked)
        listener = Listener(session, asked, await agreed(server, server.context(self, session, asked), asked))
        asked.params = None  # A client may listen for days, and all that it chose is known.
        listeners = self._listeners = self._listeners or set()
        listeners.add(listener)
        try:
            await listener.listen(server.audience, lifecycle, session.caller.lasts if session.caller else None)
        finally:
            listeners.discard(listener)
        return asked.row.read_result({"resultType": "complete", "_meta": {**self._signature(), **listener.meta}})

    def sign(self, peer: Peer) -> None:
        """Let every result say what the server calls itself, where nothing else is remembered of it."""
        if isinstance(peer.revision.lifecycle, Stateless):
            peer.signature = to_json(self._signature())

    def _signature(self) -> dict[str, Any]:
        return {f"{META}serverInfo": {"name": self._server.name, "version": self._server.version}}

    def _unspoken(self, asked: Asked) -> Refusal:
        """The refusal of a request of another revision, which says what revisions there are."""
        requested = asked.params.meta.protocol_version
        data = {"supported": self._stateless_ids(), "requested": requested}
        code = int(self._server.revision.constants["UNSUPPORTED_PROTOCOL_VERSION"])
        return Refusal(code, f"unsupported protocol version {requested!r}", data)

    def _stateless_ids(self) -> list[str]:
        return [each.speaks for each in self._servers if not each.shakes_hands]

    def _discovered(self, row: Request[Any]) -> BaseModel:
        server = self._server
        answer: dict[str, Any] = {
            **NO_CACHE,
            "supportedVersions": self._stateless_ids(),
            "capabilities": server.capabilities,
            "_meta": self._signature(),
        }
        told = row.read_result(answer | ({} if server.instructions is None else {"instructions": server.instructions}))
        said = server.source.hints.get(row.name)
        return told if said is None else told.model_copy(update=said.fields())

    def opened(self, peer: Peer, asked: Asked) -> BaseModel:
        """The answer to the opening request: the revision that was offered, or else the newest, to take or leave."""
        opening = peer.revision.lifecycle
        assert isinstance(opening, Handshake), "only a handshake has a request that opens it"
        offer, terms = asked.params.model_dump(), opening.terms
        offered = [each for each in self._servers if each.speaks == offer[terms.version] and each.shakes_hands]
        server = self._server = offered[0].face() if offered else self._server
        server.audience.join(self)
        self.client_info = offer[terms.client_info]
        peer.own = server.capabilities
        peer.agree(server.revision, offer[terms.client])
        answer: dict[str, Any] = {
            terms.version: server.revision.id,
            terms.server: server.capabilities,
            terms.server_info: {"name": server.name, "version": server.version},
            **{each: server.greeting.get(each, {}) for each in terms.further},
        }
        return asked.row.read_result(
            answer | ({} if server.instructions is None else {"instructions": server.instructions})
        )
