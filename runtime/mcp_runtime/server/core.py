"""The server core: handlers, capabilities and settings, independent of transports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from ..aio.rate_limit import RateLimit
from ..endpoint.base import Endpoint, Handler
from ..endpoint.extensions import Extension
from ..protocol.models import Read, read_as_model
from ..protocol.revision import Direction, Handshake, Notification, Sent, Stateless
from ..protocol.wire.core_records import result_type
from ..session.options import DEFAULT_OPTIONS, Params, RequestOptions
from ..usage.keywords import NoKeywords, checked
from ..usage.required import refuse_missing
from ..usage.rules import MAPPING, TEXT, Rule, check_writable
from .cache_hints import CacheHint, add_cache_hints
from .context import ServerContext as ServerContext
from .limits import DEFAULT_RATES, check_handlers, client_rates, limit_rates, require_scopes
from .lists import warn_on_reordering
from .server_info import IdentityKeywords, server_info
from .subscriptions import SubscriptionBus

if TYPE_CHECKING:
    from ..encryption import KeyRing
    from ..session.interfaces import Channel, TaskQueue
    from ..session.serving import RunsInThread
    from ..stores.primitives import Store


# What the arguments of the constructor must be.
RULES: Final[Mapping[str, Rule]] = {
    "name": TEXT,
    "version": TEXT,
    "instructions": TEXT.or_none(),
    "capabilities": Rule(MAPPING.accepts, 'a dict, such as {"logging": {}}').or_none(),
    "rate_limits": Rule(MAPPING.accepts, 'a dict such as {"call_tool": RateLimit(10, burst=50)}').or_none(),
    "cache_hints": Rule(MAPPING.accepts, 'a dict such as {"list_tools": CacheHint(60, "public")}').or_none(),
}


class ServerCore(Endpoint):
    """A server: override its methods, then `run` it. One object serves any number of clients."""

    context: ClassVar[type[ServerContext]]
    initialize_extras: Mapping[str, Any] = MappingProxyType({})
    """Further required properties of the result of `initialize`, by wire name; for extensions that define some."""
    _shared_store: Store | None = None
    """The store of all workers of an HTTP endpoint, where it has one."""
    _shares_keys = False
    """Whether the keys are those of the store."""
    _receives: ClassVar[Direction] = "client_to_server"
    _read_params: Callable[[Sent], Read] = staticmethod(read_as_model)
    """What returns the function that reads the params of a message: handlers of users get models."""
    _around: Callable[[str, ServerContext, Any, Handler], Awaitable[Any]] | None = None
    """Called with the handler of a message of the lifecycle, a notification or a request without a handler: what it
    returns is the result. An app calls its middleware in it."""

    _hides_change: Callable[[Any, Channel, str], bool] | None = None
    """Whether a client may not know that the resource at a URI has changed; None if it may know of all."""
    _runs_in_thread: RunsInThread | None = None
    """Whether a request runs code of users in a worker thread only; None if none does."""

    @checked(IdentityKeywords, rules=RULES, example='Server(name="name", version="1.0")')
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
        **identity: Unpack[IdentityKeywords],
    ) -> None:
        """Create a server. It declares the capabilities of the methods that its class overrides.

        Args:
            name: The name of the server, sent to clients in `serverInfo`.
            version: The version of the server, sent to clients in `serverInfo`.
            instructions: How to use the server, for the model of the client; by default none.
            capabilities: Further capabilities to declare, as JSON, such as
                `{"logging": {}, "tools": {"listChanged": True}}`.
            rate_limits: The rate limit of each client by handler name, such as
                `{"call_tool": RateLimit(per_second=10, burst=50)}`. Requests above the limit get an error with the
                seconds to wait. A stateless server limits all clients together. `complete` is limited to 100 a second
                (after the first 500) unless its value here is None.
            keys: The keys that encrypt `requestState` for clients of stateless protocol versions; by default keys of
                this process, which no other process can decrypt.
            extensions: The generated packages of protocol extensions; their methods can be overridden as well.
            cache_hints: How long clients may cache results, by handler name, such as
                `{"list_tools": CacheHint(60, "public")}`. Hints that a handler sets in its result take precedence.
            identity: What users see: `title`, `description`, `icons` and `website_url`.

        Raises LocalError if `cache_hints` names a handler whose results cannot be cached, and if an extension belongs
        to another protocol version or contradicts another extension.
        """
        super().__init__(capabilities, extensions)
        check_handlers(type(self).__name__, self.revision, rate_limits)
        self.name = name
        self.version = version
        self.instructions = instructions
        self.info = server_info(name, version, identity)
        check_writable(f"{type(self).__name__}()", self.info)
        self.cache_hints = cache_hints or {}
        self.keys = keys
        self.client_rates = client_rates({**DEFAULT_RATES, **(rate_limits or {})})
        self._wrap_handlers()
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake):
            opening, field = lifecycle.initialize_request, lifecycle.fields.server_capabilities
        else:
            opening, field = lifecycle.discover, "capabilities"
        self.capabilities = self._declared_capabilities(result_type(opening), field)
        self._subscription_bus = SubscriptionBus()

    def _wrap_handlers(self) -> None:
        """Wrap the handlers with the checks and additions that the settings of this server require."""
        rows = self.revision.table(self._receives).values()
        warn_on_reordering(self._handlers, rows)
        add_cache_hints(self._handlers, rows, self.cache_hints)
        limit_rates(self._handlers, rows, self.client_rates)
        if type(self).scopes is not ServerCore.scopes:
            require_scopes(self._handlers, rows, self.scopes)

    has_connected: bool = False
    """True as soon as a client may know the capabilities of the server."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[Any]:
        """Open what the handlers share, such as a database, and close it at the end. Override this method.

        The value that it yields is the `state` of the handlers' contexts. All connections of an HTTP endpoint share it.
        """
        yield None

    def principal(self, ctx: ServerContext) -> str:
        """Return a stable id of the requesting user. `requestState` and tasks belong to this id.

        It is the user of the access token, or else the owner of the HTTP session (`asgi(owner=…)`). Override this
        method if neither exists.

        Args:
            ctx: The context of the request.
        """
        auth = ctx._channel.auth  # pyright: ignore[reportPrivateUsage]
        return "" if auth is None else auth.owner_key

    def scopes(self, name: str, params: Any) -> Sequence[str]:
        """Return the OAuth scopes that a request requires besides those of the endpoint; by default none.

        Override this method. Over stdio scopes are not checked.

        Args:
            name: The name of the handler, such as "call_tool".
            params: The params of the request.
        """
        return ()

    def connected(self) -> None:
        """Note that a client gets to know the capabilities of the server."""
        self.has_connected = True

    @property
    def _origin(self) -> ServerCore:
        """The server object that the user wrote: this one, or the one that this one adapts to another version."""
        return self

    def _own_change(
        self, row: Notification, params: Mapping[str, Any]
    ) -> tuple[Notification, Mapping[str, Any]] | None:
        """Return a change notification of the origin in this protocol version; None if it has no such message."""
        return row, params

    @cached_property
    def _feature_handlers(self) -> Mapping[str, Handler]:
        """The handlers of requests that do not belong to the lifecycle, and of notifications."""
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            lifecycle_rows: tuple[Sent | None, ...] = (lifecycle.discover, lifecycle.listen)
        else:
            lifecycle_rows = (
                lifecycle.ping_request,
                lifecycle.set_level,
                lifecycle.subscribe,
                lifecycle.unsubscribe,
            )
        lifecycle_methods = {row.method for row in lifecycle_rows if row is not None}
        return {method: handler for method, handler in self._handlers.items() if method not in lifecycle_methods}

    def _check_place(self, function: str, transport: str, settings: Mapping[str, Any]) -> None:
        """Raise LocalError if the handlers need another transport or another store, as some tasks do."""

    def _open_queue(self, store: str | Store) -> TaskQueue | None:
        """Return the queue of tasks that may run at any worker; None if there are no such tasks."""
        return None

    def _tasks_of_clients(self, converter: Any) -> Any:
        """Return the handlers of tasks of a version in which clients request them; None if there are none."""
        return None

    async def _announce(
        self, row: Notification, params: Params, options: RequestOptions | None, keywords: NoKeywords | None = None
    ) -> None:
        """Send a change notification to all clients that have subscribed to it."""
        method = f"notify_{row.name.removeprefix('on_')}"
        if keywords:
            self._refuse_keywords(method, keywords)
        refuse_missing(method, params)
        await self._subscription_bus.publish(row, self._build_params(row, params, options or DEFAULT_OPTIONS))
