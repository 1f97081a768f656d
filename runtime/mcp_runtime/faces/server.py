"""Servers: an object with handlers goes in, and serves any number of conversations over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..errors import LocalError
from ..peer import Peer
from ..seams import Transport
from ..session import Session
from ..spec import Direction, Handshake, Notification, Sent, Stateless
from .audience import Audience
from .calls import DEFAULT, Options, Params
from .choosing import choose, turn_away
from .conversation import Conversation
from .face import Chosen, Extension, Face, Handler, Speaking
from .freshness import Hint, hint
from .guards import limit, scoped
from .ordering import watch_order
from .rates import Rate
from .served import ServerContext as ServerContext

if TYPE_CHECKING:
    from ..auth.resource.caller import Caller
    from .asgi import HttpServer
    from .sealing import KeyRing

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

    @cached_property
    def _further(self) -> Mapping[str, Handler]:
        """The handlers of what is no message of the lifecycle, and of notifications."""
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            roles: tuple[Sent | None, ...] = (lifecycle.discover, lifecycle.listen)
        else:
            roles = (lifecycle.probe, lifecycle.level, lifecycle.subscribe, lifecycle.unsubscribe)
        own = {row.method for row in roles if row is not None}
        return {method: handler for method, handler in self._handlers.items() if method not in own}

    async def _announce(self, row: Notification, params: Params, options: Options | None) -> None:
        """Tell all clients that want to hear it."""
        await self.audience.tell(row, self._given(row, params, options or DEFAULT))


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
                    session.over.add_done_callback(lambda _: conversation.leave())
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
