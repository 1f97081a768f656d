"""Servers: an object with handlers goes in, and serves any number of conversations over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..errors import LocalError
from ..peer import Connection
from ..seams import Transport
from ..session import Session
from ..spec import Direction, Handshake, Notification, Sent, Stateless
from .audience import SubscriptionBus
from .calls import DEFAULT_OPTIONS, RequestOptions, Params
from .choosing import select_service, reject_message
from .conversation import Dispatcher
from .face import RevisionChoice, Extension, Endpoint, Handler, Candidate
from .freshness import CacheHint, add_cache_hints
from .guards import limit_rates, require_scopes
from .ordering import warn_on_reordering
from .rates import RateLimit
from .served import ServerContext as ServerContext

if TYPE_CHECKING:
    from ..auth.resource.caller import RequestAuth
    from .asgi import MCPASGIApp
    from .sealing import KeyRing

_DEFAULT_RATE_LIMITS: Final[Mapping[str, RateLimit]] = {"complete": RateLimit(per_second=100, burst=500)}


class BaseServer(Endpoint):
    """A server: override its methods, then `run` it. One object serves any number of conversations.

    `capabilities` are declared beside those that the overridden methods declare, such as
    `{"logging": {}, "tools": {"listChanged": True}}`. `rates` say how often each client may call a method, by its name
    here, such as `{"call_tool": RateLimit(10, burst=50)}`; completions have a rate unless it is None. `keys` seal what
    clients without a session hand back; without them, another process cannot open it. `extensions` are generated packages:
    their methods can be overridden as well. `hints` say how long clients may keep results, by the same names, such as
    `{"list_tools": CacheHint(60, "public")}`, where a handler does not say so itself.
    """

    context: ClassVar[type[ServerContext]]
    initialize_extras: Mapping[str, Any] = MappingProxyType({})
    """What the answer to an opening says besides, by its name on the wire, where a conversation has that."""
    _receives: ClassVar[Direction] = "client_to_server"

    def __init__(
        self,
        *,
        name: str,
        version: str,
        instructions: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
        rate_limits: Mapping[str, RateLimit | None] | None = None,
        keys: KeyRing | None = None,
        extensions: Sequence[Extension] = (),
        cache_hints: Mapping[str, CacheHint] | None = None,
    ) -> None:
        super().__init__(capabilities, extensions)
        self.cache_hints = cache_hints or {}
        rows = self.revision.table(self._receives).values()
        warn_on_reordering(self._handlers, rows)
        add_cache_hints(self._handlers, rows, self.cache_hints)
        together = None if isinstance(self.revision.lifecycle, Handshake) else self
        limit_rates(self._handlers, rows, {**_DEFAULT_RATE_LIMITS, **(rate_limits or {})}, together)
        if type(self).scopes is not BaseServer.scopes:
            require_scopes(self._handlers, rows, self.scopes)
        self.name, self.version, self.instructions = name, version, instructions
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake):
            self.capabilities = self._declared_capabilities(
                lifecycle.initialize_request.result, lifecycle.fields.server_capabilities
            )
        else:
            self.capabilities = self._declared_capabilities(lifecycle.discover.result, "capabilities")
        self.subscription_bus = SubscriptionBus()
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
    def origin(self) -> BaseServer:
        """The server whose handlers these are, where it is of another revision; else itself."""
        return self

    def run(self, transport: str = "stdio", *, revisions: RevisionChoice = "all", **settings: Any) -> None:
        """Serve clients of these revisions, converting what is of another than its own, until the client ends the
        conversation or the process is told to end. `settings` are those of the transport: none for "stdio", and those
        of `faces.http.run` for "http"."""
        from .revisions import server_candidates

        run(*server_candidates(self, revisions), transport=transport, **settings)

    def asgi(self, *, revisions: RevisionChoice = "all", **settings: Any) -> MCPASGIApp:
        """This server, for clients of these revisions, as an ASGI application, to be mounted in another or run by any
        ASGI server; `settings` are those of `faces.asgi.MCPASGIApp`."""
        from .asgi import MCPASGIApp
        from .revisions import server_candidates

        return MCPASGIApp([each.get() for each in server_candidates(self, revisions)], **settings)

    async def serve(self, transport: Transport) -> None:
        """Serve one conversation."""
        await serve([self], transport)

    @cached_property
    def _feature_handlers(self) -> Mapping[str, Handler]:
        """The handlers of what is no message of the lifecycle, and of notifications."""
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            roles: tuple[Sent | None, ...] = (lifecycle.discover, lifecycle.listen)
        else:
            roles = (lifecycle.ping_request, lifecycle.set_level, lifecycle.subscribe, lifecycle.unsubscribe)
        own = {row.method for row in roles if row is not None}
        return {method: handler for method, handler in self._handlers.items() if method not in own}

    async def _announce(self, row: Notification, params: Params, options: RequestOptions | None) -> None:
        """Tell all clients that want to hear it."""
        await self.subscription_bus.publish(row, self._build_params(row, params, options or DEFAULT_OPTIONS))


def run(*servers: Candidate[BaseServer], transport: str = "stdio", **settings: Any) -> None:
    """Serve until the client ends the conversation, or the process is told to end; with several servers, each client
    gets the one whose revision it speaks. Servers are given oldest revision first."""
    match transport:
        case "stdio":
            from ..transports.stdio import run_server

            run_server(lambda opened: serve(servers, opened), **settings)
        case "http":
            from .http import serve_with_uvicorn

            serve_with_uvicorn([each.get() for each in servers], **settings)
        case _:
            raise LocalError(f"no transport is called {transport!r}; there are 'stdio' and 'http'")


async def serve(
    servers: Sequence[Candidate[BaseServer]], transport: Transport, auth: RequestAuth | None = None
) -> None:
    """Serve one conversation over a transport, for this caller; it is closed afterwards."""
    try:
        while (first := await transport.receive()) is not None:
            chosen = select_service(servers, first)
            if chosen is not None:
                async with chosen.lifespan() as state:
                    conversation = Dispatcher(servers, chosen, state)
                    peer = Connection(chosen.revision, "server", local_capabilities=chosen.capabilities)
                    conversation.stamp_server_info(peer)
                    session = Session(peer, transport, conversation.handle, conversation.initialize, auth=auth)
                    conversation.attach(session)
                    session.closed.add_done_callback(lambda _: conversation.detach())
                    try:
                        await session.run(first)
                    finally:
                        conversation.detach()
                        await conversation.background_tasks.end()
                return
            reject_message(servers, transport, first)
            await transport.drain()
    finally:
        await transport.close()
