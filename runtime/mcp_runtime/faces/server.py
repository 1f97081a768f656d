"""Servers: an object with handlers goes in, and serves any number of conversations over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import BaseModel
from pydantic_core import to_json

from ..errors import LocalError, Refusal
from ..peer import Asked, Peer, Told
from ..seams import Speaker, Transport
from ..session import Session
from ..spec import META, Direction, Handshake, Notification, Request, Sent, Stateless
from .audience import Audience, Listener, Watched, agreed
from .behind import Behind
from .calls import DEFAULT, Options, Params
from .choosing import choose, turn_away
from .face import LEVELS, Chosen, Extension, Face, Handler, Speaking
from .freshness import Hint, hint
from .guards import check_scopes, limit, scoped
from .ordering import watch_order
from .questions import check_questions
from .rates import Allowance, Rate
from .rounds import Rounds, interim_of
from .served import ServerContext as ServerContext
from .tracing import in_trace

if TYPE_CHECKING:
    from ..auth.resource.caller import Caller
    from .asgi import HttpServer
    from .sealing import KeyRing

NO_CACHE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

_LOG: Final = Rate(per_second=1000, burst=5000)
_RATES: Final[Mapping[str, Rate]] = {"complete": Rate(per_second=100, burst=500)}


class BaseServer(Face):
    """A server: override its methods, then `run` it. One object serves any number of conversations.

    `capabilities` are declared beside those that the overridden methods declare, such as
    `{"logging": {}, "tools": {"listChanged": True}}`. `rates` say how often each client may call a method, by its name
    here, such as `{"call_tool": Rate(10, burst=50)}`; completions have a rate unless it is None. `keys` seal what
    clients without a session hand back; without them, another process cannot open it. `extensions` are generated packages:
    their methods can be overridden as well. `hints` say how long clients may keep results, by the same names, such as
    `{"list_tools": Hint(60, "public")}`, where a handler does not say so itself.
    """

    context: ClassVar[type[ServerContext]]
    greeting: Mapping[str, Any] = MappingProxyType({})
    """What the answer to an opening says besides, by its name on the wire, where a conversation has that."""
    _receives: ClassVar[Direction] = "client_to_server"

    def __init__(
        self,
        *,
        name: str,
        version: str,
        instructions: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
        rates: Mapping[str, Rate | None] | None = None,
        keys: KeyRing | None = None,
        extensions: Sequence[Extension] = (),
        hints: Mapping[str, Hint] | None = None,
    ) -> None:
        super().__init__(capabilities, extensions)
        self.hints = hints or {}
        rows = self.revision.table(self._receives).values()
        watch_order(self._handlers, rows)
        hint(self._handlers, rows, self.hints)
        together = None if isinstance(self.revision.lifecycle, Handshake) else self
        limit(self._handlers, rows, {**_RATES, **(rates or {})}, together)
        if type(self).scopes is not BaseServer.scopes:
            scoped(self._handlers, rows, self.scopes)
        self.name, self.version, self.instructions = name, version, instructions
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake):
            self.capabilities = self._capabilities(lifecycle.open.result, lifecycle.terms.server)
        else:
            self.capabilities = self._capabilities(lifecycle.discover.result, "capabilities")
        self.audience = Audience()
        self.keys = keys

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[Any]:
        """Override to open what the handlers share; what it yields is the `state` of their contexts."""
        yield None

    def principal(self, ctx: ServerContext) -> str:
        """Whose request this is; what is sealed for one is refused from another. Override it where no token tells."""
        return "" if ctx.user is None else ctx.user.key

    def scopes(self, name: str, params: Any) -> Sequence[str]:
        """Override to say which scopes a request needs beside those of the endpoint, by the name of its handler and its
        params. Over stdio none are needed."""
        return ()

    @property
    def source(self) -> BaseServer:
        """The server whose handlers these are, where it is of another revision; else itself."""
        return self

    def run(self, transport: str = "stdio", *, revisions: Chosen = "all", **settings: Any) -> None:
        """Serve clients of these revisions, converting what is of another than its own, until the client ends the
        conversation or the process is told to end. `settings` are those of the transport: none for "stdio", and those
        of `faces.http.run` for "http"."""
        from .revisions import servers_of

        run(*servers_of(self, revisions), transport=transport, **settings)

    def asgi(self, *, revisions: Chosen = "all", **settings: Any) -> HttpServer:
        """This server, for clients of these revisions, as an ASGI application, to be mounted in another or run by any
        ASGI server; `settings` are those of `faces.asgi.HttpServer`."""
        from .asgi import HttpServer
        from .revisions import servers_of

        return HttpServer([each.face() for each in servers_of(self, revisions)], **settings)

    async def serve(self, transport: Transport) -> None:
        """Serve one conversation."""
        await serve([self], transport)

    async def _announce(self, row: Notification, params: Params, options: Options | None) -> None:
        """Tell all clients that want to hear it."""
        await self.audience.tell(row, self._given(row, params, options or DEFAULT))


class Conversation:
    """One client, served by that one of the servers whose revision it speaks."""

    def __init__(self, servers: Sequence[Speaking[BaseServer]], chosen: BaseServer, state: Any) -> None:
        self._servers = servers
        self._server = chosen
        self.state = state
        self.level: str | None = LEVELS[0] if isinstance(chosen.revision.lifecycle, Handshake) else None
        self.client_info: dict[str, Any] = {}
        self.log_pace = Allowance(_LOG)
        self._alone = self._handlers_alone()
        self.handle = in_trace(self._answer)
        self._session: Session | None = None
        self._watched = Watched()
        self._listeners: set[Listener] = set()
        self.behind = Behind()

    def attend(self, session: Session) -> None:
        """The client of this session hears of changes, once the conversation is open."""
        self._session = session
        session.over.add_done_callback(lambda _: self.leave())

    def leave(self) -> None:
        """The client hears of nothing any more; who listens is told that this is the end."""
        self._server.audience.leave(self)
        for listener in self._listeners:
            listener.end()

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Whether the client wants to hear of a change: of a resource only if it watches that."""
        return "uri" not in params or params["uri"] in self._watched

    async def hear(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Tell the client."""
        if self._session is not None:
            await self._session.tell(row, params)

    def _answer(self, session: Speaker, message: Asked | Told) -> Awaitable[Any]:
        """The answer to a message, to be awaited: that of its handler alone, where the runtime has no part in it."""
        handler = self._alone.get(message.row.method)
        if handler is None:
            return self._handle(session, message)
        answer: Awaitable[Any] = handler(self._server.context(self, session, message), message.params)
        return answer

    def _handlers_alone(self) -> dict[str, Handler]:
        """The handlers of what is no message of the lifecycle, in a conversation that is a session."""
        lifecycle = self._server.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            return {}
        roles = (lifecycle.probe, lifecycle.level, lifecycle.subscribe, lifecycle.unsubscribe)
        own = {row.method for row in roles if row is not None}
        handlers = self._server._handlers  # pyright: ignore[reportPrivateUsage]
        return {method: handler for method, handler in handlers.items() if method not in own}

    async def _handle(self, session: Speaker, message: Asked | Told) -> Any:
        """The answer to a message: the runtime's own for the lifecycle's messages, else that of the handler."""
        lifecycle, row = session.peer.revision.lifecycle, message.row
        if isinstance(lifecycle, Stateless) and isinstance(message, Asked):
            self._check_version(message)
            if row is lifecycle.discover:
                return self._discovered(message.row)
            if row is lifecycle.listen:
                return await self._listen(session, message, lifecycle)
        elif isinstance(lifecycle, Handshake) and isinstance(message, Asked):
            if row.method == lifecycle.probe.method:
                return message.row.result()
            if lifecycle.level is not None and row.method == lifecycle.level.method:
                self.level = message.params.level
        handler = self._server._handlers.get(row.method)  # pyright: ignore[reportPrivateUsage]
        if handler is None:
            if isinstance(message, Told):
                return None
            if not self._is_kept_here(row):
                raise self._server._not_handled(message.row)  # pyright: ignore[reportPrivateUsage]
            check_scopes(self._server.context(self, session, message), self._server.source.scopes, message)
            answer = message.row.result()
        else:
            answer = await self._run(handler, session, message)
            if isinstance(message, Asked) and type(answer) is not message.row.result:
                ctx = self._server.context(self, session, message)
                check_questions(session.peer.revision, ctx.capabilities, answer)
        if isinstance(lifecycle, Handshake):
            self._note_watched(lifecycle, message)
        return answer

    async def _run(self, handler: Handler, session: Speaker, message: Asked | Told) -> Any:
        """What a handler answers; where nothing is asked but by results, what it asks becomes one."""
        ctx = self._server.context(self, session, message)
        interim = interim_of(message.row) if isinstance(message, Asked) else None
        if interim is None or not isinstance(message, Asked):
            return await handler(ctx, message.params)
        source = self._server.source
        rounds = Rounds(session, message, interim, lambda: ctx.capabilities, source.keys, source.principal(ctx))
        inside = self._server.context(self, rounds, message)
        inside._rounds = rounds  # pyright: ignore[reportPrivateUsage]
        return await rounds.answer(handler(inside, message.params))

    def _is_kept_here(self, row: Sent) -> bool:
        """Whether a request needs no handler, because what it is about is known here."""
        lifecycle = self._server.revision.lifecycle
        if not isinstance(lifecycle, Handshake):
            return False
        roles = (lifecycle.level, lifecycle.subscribe, lifecycle.unsubscribe)
        return row.method in {each.method for each in roles if each is not None}

    def _note_watched(self, lifecycle: Handshake, message: Asked | Told) -> None:
        if lifecycle.subscribe is not None and message.row.method == lifecycle.subscribe.method:
            self._watched.add(message.params.uri)
        elif lifecycle.unsubscribe is not None and message.row.method == lifecycle.unsubscribe.method:
            self._watched.discard(message.params.uri)

    async def _listen(self, session: Speaker, asked: Asked, lifecycle: Stateless) -> BaseModel:
        """Let a client listen until it or the server ends that, and say that this was the end."""
        server = self._server
        check_scopes(server.context(self, session, asked), server.source.scopes, asked)
        listener = Listener(session, asked, await agreed(server, server.context(self, session, asked), asked))
        self._listeners.add(listener)
        try:
            await listener.listen(server.audience, lifecycle, session.caller.lasts if session.caller else None)
        finally:
            self._listeners.discard(listener)
        return asked.row.read_result({"resultType": "complete", "_meta": {**self._signature(), **listener.meta}})

    def sign(self, peer: Peer) -> None:
        """Let every result say what the server calls itself, where nothing else is remembered of it."""
        if isinstance(peer.revision.lifecycle, Stateless):
            peer.signature = to_json(self._signature())

    def _signature(self) -> dict[str, Any]:
        return {f"{META}serverInfo": {"name": self._server.name, "version": self._server.version}}

    def _check_version(self, asked: Asked) -> None:
        """Raise the Refusal that says which revisions there are, where the request is of another one."""
        revision = self._server.revision
        requested = asked.params.meta.protocol_version
        if requested != revision.id:
            data = {"supported": self._stateless_ids(), "requested": requested}
            code = int(revision.constants["UNSUPPORTED_PROTOCOL_VERSION"])
            raise Refusal(code, f"unsupported protocol version {requested!r}", data)

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
        self._alone = self._handlers_alone()
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


def run(*servers: Speaking[BaseServer], transport: str = "stdio", **settings: Any) -> None:
    """Serve until the client ends the conversation, or the process is told to end; with several servers, each client
    gets the one whose revision it speaks. Servers are given oldest revision first."""
    match transport:
        case "stdio":
            from ..transports.stdio import run_server

            run_server(lambda opened: serve(servers, opened), **settings)
        case "http":
            from .http import run_http

            run_http([each.face() for each in servers], **settings)
        case _:
            raise LocalError(f"no transport is called {transport!r}; there are 'stdio' and 'http'")


async def serve(servers: Sequence[Speaking[BaseServer]], transport: Transport, caller: Caller | None = None) -> None:
    """Serve one conversation over a transport, for this caller; it is closed afterwards."""
    try:
        while (first := await transport.receive()) is not None:
            chosen = choose(servers, first)
            if chosen is not None:
                async with chosen.lifespan() as state:
                    conversation = Conversation(servers, chosen, state)
                    peer = Peer(chosen.revision, "server", own=chosen.capabilities)
                    conversation.sign(peer)
                    session = Session(peer, transport, conversation.handle, conversation.opened, caller=caller)
                    conversation.attend(session)
                    try:
                        await session.run(first)
                    finally:
                        conversation.leave()
                        await conversation.behind.end()
                return
            turn_away(servers, transport, first)
            await transport.drained()
    finally:
        await transport.close()
