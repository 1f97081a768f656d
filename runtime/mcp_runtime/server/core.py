"""Servers: an object with handlers goes in, and serves any number of conversations over any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..aio.rate_limit import RateLimit
from ..endpoint.base import Endpoint, Handler
from ..endpoint.extensions import Extension
from ..protocol.revision import Direction, Handshake, Notification, Sent, Stateless
from ..session.options import DEFAULT_OPTIONS, Params, RequestOptions
from .cache_hints import CacheHint, add_cache_hints
from .context import ServerContext as ServerContext
from .limits import limit_rates, require_scopes
from .lists import warn_on_reordering
from .subscriptions import SubscriptionBus

if TYPE_CHECKING:
    from ..encryption import KeyRing

_DEFAULT_RATE_LIMITS: Final[Mapping[str, RateLimit]] = {"complete": RateLimit(per_second=100, burst=500)}


class ServerCore(Endpoint):
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
        if type(self).scopes is not ServerCore.scopes:
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
    def origin(self) -> ServerCore:
        """The server whose handlers these are, where it is of another revision; else itself."""
        return self

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
