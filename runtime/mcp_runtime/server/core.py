"""The server core: handlers, capabilities and settings, independent of transports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias, TypedDict, Unpack

from ..aio.rates import RateLimit
from ..endpoint.base import Endpoint, Extension, Handler, OwnHandlers
from ..protocol.models import Read, is_model, is_model_type, is_object, read_as_model
from ..protocol.records import records
from ..protocol.revision import Direction, Handshake, Notification, Sent, Stateless
from ..session.requests import DEFAULT_OPTIONS, Params, RequestOptions
from ..usage.keywords import NoKeywords, checked, refuse_missing
from ..usage.rules import MAPPING, TEXT, Rule, check_writable, like
from .context import ConnectionState, SessionState
from .context import ServerContext as ServerContext
from .limits import DEFAULT_RATES, check_handlers, client_rates, limit_rates, require_scopes
from .lists import CacheHint, add_cache_hints, warn_on_reordering
from .subscriptions import SubscriptionBus

if TYPE_CHECKING:
    from ..protocol.connection import NotificationReceived, RequestReceived
    from ..session.interfaces import Channel, TaskQueue
    from ..session.serving import RunsInThread
    from ..stores import Store
    from .state_tokens import StateKeys

Announce: TypeAlias = "Callable[[Notification, Params, RequestOptions | None], Awaitable[None]]"
OwnChange: TypeAlias = "Callable[[Notification, Mapping[str, Any]], tuple[Notification, Mapping[str, Any]] | None]"

# What the arguments of the constructor must be.
RULES: Final[Mapping[str, Rule]] = {
    "name": TEXT,
    "version": TEXT,
    "instructions": TEXT.or_none(),
    "capabilities": Rule(MAPPING.accepts, 'a dict, such as {"logging": {}}').or_none(),
    "rate_limits": Rule(MAPPING.accepts, 'a dict such as {"call_tool": RateLimit(10, burst=50)}').or_none(),
    "tenant": like("Tenants(by=…, limits=Limits(…))", "around_dispatch").or_none(),
    "cache_hints": Rule(MAPPING.accepts, 'a dict such as {"list_tools": CacheHint(60, "public")}').or_none(),
}


# The `Implementation` that a server sends to clients, with the properties that a protocol version has.
#
# https://modelcontextprotocol.io/specification/draft/schema#implementation


class IdentityKeywords(TypedDict, total=False):
    """What users see of a server: `title`, its name for users; `description`, what it does; `icons`, Icon objects or
    dicts; and `website_url`."""

    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    website_url: str | None


def server_info(name: str, version: str, identity: IdentityKeywords) -> dict[str, Any]:
    """Return the `Implementation` as JSON, without absent properties."""
    icons = identity.get("icons")
    shown = {
        "name": name,
        "version": version,
        "title": identity.get("title"),
        "description": identity.get("description"),
        "icons": None if icons is None else [_icon(icon) for icon in icons],
        "websiteUrl": identity.get("website_url"),
    }
    return {key: value for key, value in shown.items() if value is not None}


def info_for(result: Any, field: str, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that the `Implementation` of a result type has; `field` is its wire name there."""
    implementation: Any = records().property_type(result, field)
    has_fields = is_model_type(implementation)
    names = (records().property_names(implementation) if has_fields else frozenset[str]()) or {"name", "version"}
    return {key: value for key, value in info.items() if key in names}


def _icon(icon: Any) -> Any:
    if is_object(icon):
        return dict(icon)
    return icon.model_dump(mode="json", by_alias=True, exclude_none=True) if is_model(icon) else icon


class TaskSupport(Protocol):
    """The tasks of a server, which the extension implements.

    Attributes:
        options: Returns the `TaskOptions` that functions of the server declare; those of an app are its tools.
        options_of: Returns the options of the tool with a name; None if its calls become no tasks.
    """

    options: Callable[[], Iterable[Any]]
    options_of: Callable[[str], Any]

    def check_place(self, function: str, transport: str, settings: Mapping[str, Any]) -> None:
        """Raise LocalError if the tasks need another transport or another store."""

    def open_queue(self, store: str | Store) -> TaskQueue | None:
        """Return the queue of tasks that may run at any worker; None if there are no such tasks."""
        ...

    def of_clients(self, converter: Any) -> Any:
        """Return the handlers of tasks of a version in which clients request them; None if there are none."""
        ...


class TenantLimits(Protocol):
    """What the tenants of a server may use, as the value of `tenant=`."""

    def around_dispatch(self, dispatcher: Any) -> Any:
        """Return a dispatcher around that of a connection, which refuses what is above a limit."""
        ...


class ServerParts:
    """What dispatchers, adapters, workers and products take of a server: one object, so that no generated method of
    the server can hide what it has.

    Attributes:
        server: The server that has these parts.
        origin: The server object that the user wrote: this one, or the one that this one adapts to another version.
        revision: The protocol version of the server.
        context: The class of the contexts of its handlers.
        handlers: All handlers by method, with the checks of the server's settings.
        announce: Sends a change notification to all clients that have subscribed to it.
        bus: The connections that get change notifications.
        store: The store of all workers of an HTTP endpoint, where it has one.
        own: The handlers of messages that the protocol does not have, by method and kind.
        shares_keys: Whether the keys of the server are those of the store.
        tasks: The tasks of the server; None without the extension.
        tenant: What its tenants may use; None without limits.
        read_params: Returns the function that reads the params of a message: handlers of users get models.
        around: Called with the handler of a message of the lifecycle, a notification or a request without a handler:
            what it returns is the result. An app calls its middleware in it.
        hides_change: Whether a client may not know that the resource at a URI has changed; None if it may know of all.
        runs_in_thread: Whether a request runs code of users in a worker thread only; None if none does.
        may_require_input: Whether a request may have an interim result with input requests.
        new_session_state: Makes what a product stores for a session; None if it stores nothing.
        own_change: Returns a change notification of the origin in this protocol version; None if it has no such
            message.
    """

    def __init__(self, server: ServerCore, handlers: dict[str, Handler], announce: Announce) -> None:
        """Create the parts of a server that the user wrote, with its handlers."""
        self.server = server
        self.origin = server
        self.handlers = handlers
        self.announce = announce
        self.bus = SubscriptionBus()
        self.own: OwnHandlers = {}
        self.store: Store | None = None
        self.shares_keys = False
        self.tasks: TaskSupport | None = None
        self.tenant: TenantLimits | None = None
        self.read_params: Callable[[Sent], Read] = read_as_model
        self.around: Callable[[str, ServerContext, Any, Handler], Awaitable[Any]] | None = None
        self.hides_change: Callable[[Any, Channel, str], bool] | None = None
        self.runs_in_thread: RunsInThread | None = None
        self.own_change: OwnChange = _unchanged
        self.new_session_state: Callable[[], SessionState] | None = None
        self.may_require_input = records().may_require_input
        self.revision = server.revision
        self.context = server.context

    @cached_property
    def feature_handlers(self) -> Mapping[str, Handler]:
        """The handlers of requests that do not belong to the lifecycle, and of notifications."""
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            lifecycle_rows: tuple[Sent | None, ...] = (lifecycle.discover, lifecycle.listen)
        else:
            subscriptions = lifecycle.subscribe, lifecycle.unsubscribe
            lifecycle_rows = (lifecycle.ping_request, lifecycle.set_level, *subscriptions)
        lifecycle_methods = {row.method for row in lifecycle_rows if row is not None}
        return {method: handler for method, handler in self.handlers.items() if method not in lifecycle_methods}

    def check_place(self, function: str, transport: str, settings: Mapping[str, Any]) -> None:
        """Raise LocalError if the handlers need another transport or another store, as some tasks do."""
        if self.tasks is not None:
            self.tasks.check_place(function, transport, settings)


def _unchanged(row: Notification, params: Mapping[str, Any]) -> tuple[Notification, Mapping[str, Any]] | None:
    return row, params


class ServerCore(Endpoint):
    """A server: override its methods, then `run` it. One object serves any number of clients."""

    context: ClassVar[type[ServerContext]]
    initialize_extras: Mapping[str, Any] = MappingProxyType({})
    """Further required properties of the result of `initialize`, by wire name; for extensions that define some."""
    _receives: ClassVar[Direction] = "client_to_server"
    parts: ServerParts
    """What dispatchers, adapters, workers and products take of the server; not for users."""

    @checked(IdentityKeywords, rules=RULES, example='Server(name="name", version="1.0")')
    def __init__(
        self,
        *,
        name: str,
        version: str,
        instructions: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
        rate_limits: Mapping[str, RateLimit | None] | None = None,
        keys: StateKeys | None = None,
        tenant: TenantLimits | None = None,
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
            tenant: What each tenant may use: `Tenants(by=…, limits=Limits(…))`.
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
        self.capabilities = self._declared_capabilities(records().result_type(opening), field)
        self.parts = ServerParts(self, self._handlers, self._announce)
        self.parts.tenant = tenant

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
        auth = ctx.channel.auth
        return "" if auth is None else auth.owner_key

    def scopes(self, name: str, params: Any) -> Sequence[str]:
        """Return the OAuth scopes that a request requires besides those of the endpoint; by default none.

        Override this method. Over stdio scopes are not checked.

        Args:
            name: The name of the handler, such as "call_tool".
            params: The params of the request.
        """
        return ()

    def own_context(
        self, connection: ConnectionState, channel: Channel, message: RequestReceived | NotificationReceived
    ) -> ServerContext:
        """Return the context of a message that the protocol does not have."""
        return self.context(connection, channel, message)

    def connected(self) -> None:
        """Note that a client gets to know the capabilities of the server."""
        self.has_connected = True

    async def _announce(
        self, row: Notification, params: Params, options: RequestOptions | None, keywords: NoKeywords | None = None
    ) -> None:
        """Send a change notification to all clients that have subscribed to it."""
        method = f"notify_{row.name.removeprefix('on_')}"
        if keywords:
            self._refuse_keywords(method, keywords)
        refuse_missing(method, params)
        await self.parts.bus.publish(row, self._build_params(row, params, options or DEFAULT_OPTIONS))
