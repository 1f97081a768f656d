"""The provider of a proxy: forwards the requests of clients to the target."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from mcp_products.app.administration import Administration
from mcp_products.app.components.uris import strip_prefix
from mcp_products.app.providers.provider import CallNext, Provider
from mcp_products.host.multi_client import ListedPages, ListLimits
from mcp_products.host.targets import generated_of
from mcp_runtime.bindings.client import BaseClient
from mcp_runtime.bindings.server import BaseServer, Servable
from mcp_runtime.endpoint.checks import filter_of
from mcp_runtime.errors import JSONRPCError, LocalError, MCPError, RemoteError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.lifecycle import merge
from mcp_runtime.protocol.model_methods import implementation_of
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.revision import META, Request, Revision, Sent
from mcp_runtime.server.context import ServerContext
from mcp_runtime.session.interfaces import RevisionChoice
from mcp_runtime.usage.rules import COUNT, are_texts, check_values

from ..upstream.opening import NoAnswerError, OpenUpstream, chosen_revisions
from ..upstream.places import SessionPlaces
from ..upstream.pool import MAX_CONNECTIONS
from ..upstream.target import ClientConnector, entries_of, prefix_of
from ..upstream.translation import LossCounter, Translation
from .calls import ForwardedCall, ProxiedCall, run_round, suspended_call
from .client_side import ChangeTeller
from .connections import TargetConnections, is_sessionless
from .own_methods import PassedMethods, check_methods
from .sharing import ConnectionRules

_log: Final = logging.getLogger("mcp_runtime.relay.proxy.provider")
_NAMES: Final = {"title": "title", "description": "description", "icons": "icons", "websiteUrl": "website_url"}
# Capabilities that clients and tools use without messages of their own, so that a proxy serves them.
_SHOWN_CAPABILITIES: Final = ("experimental", "extensions")
_WITH_MESSAGES: Final = ("/tasks", "/skills")  # Extensions whose methods a proxy does not have.


class ConnectionLimits(NamedTuple):
    """How many connections a proxy may have to its target: of requests without a session, and of all sessions.

    Where a number is None, there is a default; that of sessions depends on the kind of the target.
    """

    connections: int | None = None
    session_connections: int | None = None


class TargetProvider:
    """What another server has, and how requests reach it, over the connections of a subclass."""

    limits = ListLimits()
    """Those of each list of the target that is read as a whole."""

    def __init__(self, name: str, revision: Revision) -> None:
        """Create the provider of a target; `name` is for messages, `revision` the protocol version of the app."""
        self._name = name
        self._revision = revision
        self._rows = {row.name: row for row in revision.rows if isinstance(row, Request)}

    def __repr__(self) -> str:
        return f"<proxy {self._name!r}>"

    def connections(self, ctx: ServerContext) -> TargetConnections:
        """Return the connections for a request. Raises JSONRPCError."""
        raise NotImplementedError

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def forward(self, name: str, ctx: ServerContext, params: Any, seconds: float | None = None) -> Any:
        """Return the target's result of a request, which may take so many seconds, without those to connect.

        Raises JSONRPCError with the code and the data of its error, and TimeoutError.
        """
        row, connections = self._rows[name], self.connections(ctx)
        has_rounds = row.input_required is not None and ctx.multi_round_trip is not None
        key = f"proxy {self._name} {name} {getattr(params, 'name', None) or getattr(params, 'uri', '')}"
        suspended: ProxiedCall | None = None
        if has_rounds and connections.target_is_stateless is False:
            suspended = suspended_call(connections.suspended, key, ctx)
        if suspended is None:
            target, release, holds = await connections.acquire(ctx)
            call = ForwardedCall(ctx, row.method, holds)
            if not has_rounds or target.is_stateless:  # What a stateless target calls `requestState` is its own.
                try:
                    async with asyncio.timeout(seconds):
                        return await target.forward(row, params, call)
                finally:
                    release()
            try:
                suspended_call(connections.suspended, key, ctx)  # It raises for a round of a call that has ended.
            except BaseException:
                release()
                raise
            suspended = ProxiedCall(call, connections.input_rows)
            suspended.task = asyncio.ensure_future(target.forward(row, params, call))
            suspended.task.add_done_callback(lambda _: release())
        async with asyncio.timeout(seconds):
            return await run_round(connections.suspended, key, suspended, ctx)

    async def send_own(
        self, ctx: ServerContext, method: str, kind: type[Sent], params: dict[str, Any], seconds: float | None = None
    ) -> dict[str, Any]:
        """Return the target's result of a method that the protocol does not have; of a notification, nothing.

        Raises JSONRPCError with the code and the data of its error, and TimeoutError.
        """
        target, release, holds = await self.connections(ctx).acquire(ctx)
        try:
            async with asyncio.timeout(seconds):
                return await target.send_own(kind, params, ForwardedCall(ctx, method, holds))
        finally:
            release()

    async def list_tools(self, ctx: ServerContext) -> Sequence[Any]:
        """Return all tools of the target."""
        return await self._list(ctx, "tools")

    async def list_prompts(self, ctx: ServerContext) -> Sequence[Any]:
        """Return all prompts of the target."""
        return await self._list(ctx, "prompts")

    async def list_resources(self, ctx: ServerContext) -> Sequence[Any]:
        """Return all resources of the target."""
        return await self._list(ctx, "resources")

    async def list_resource_templates(self, ctx: ServerContext) -> Sequence[Any]:
        """Return all resource templates of the target."""
        return await self._list(ctx, "resource_templates")

    async def _list(self, ctx: ServerContext, kind: str) -> list[Any]:
        items: list[Any] = []
        async for page in self.pages(ctx, kind):
            items += getattr(page, kind)
        return items

    async def pages(self, ctx: ServerContext, kind: str, ends: float | None = None) -> AsyncGenerator[Any]:
        """Yield the pages of a list of the target, until `ends`, a time of the event loop; by default that of `limits`.

        Raises JSONRPCError for a list that has not ended after the time of `limits`, or that is longer.
        """
        row = self._rows[f"list_{kind}"]
        listed = ListedPages(row.method, self.limits)
        meta = {"_meta": self._required_meta(ctx)}
        if ends is None:
            ends = asyncio.get_running_loop().time() + self.limits.seconds
        cursor: str | None = None
        is_open = False
        try:
            async with asyncio.timeout_at(ends):
                target, release, holds = await self.connections(ctx).acquire(ctx)
            is_open = True
            try:  # One connection has all pages, because a cursor may belong to it.
                while True:
                    params = row.params.model_validate(meta if cursor is None else {**meta, "cursor": cursor})
                    async with asyncio.timeout_at(ends):
                        page = await target.forward(row, params, ForwardedCall(ctx, row.method, holds))
                    if listed.is_again(getattr(page, kind), page.next_cursor):
                        return
                    cursor = listed.add_page(page, len(getattr(page, kind)))
                    yield page
                    if cursor is None:
                        return
            finally:
                release()
        except TimeoutError:
            message = f"{self._name!r} has not listed its {kind} within {self.limits.seconds:g} s"
            raise NoAnswerError(message, is_outage=is_open, is_late=True) from None  # Others may have all connections.
        except RemoteError as error:
            raise JSONRPCError(INTERNAL_ERROR, f"the {kind} of {self._name!r}: {error}") from error

    def _required_meta(self, ctx: ServerContext) -> dict[str, Any]:
        """Return the `_meta` of requests that the proxy sends itself; the client may use another version."""
        own = {
            f"{META}protocolVersion": self._revision.id,
            f"{META}clientInfo": {"name": self._name, "version": "0"},
            f"{META}clientCapabilities": {},
        }
        return {**own, **{key: value for key, value in ctx.meta.items() if key != "progressToken"}}

    # ---- messages of the lifecycle ----------------------------------------------------------------------------------

    async def pass_on(self, name: str, ctx: ServerContext, params: Any) -> None:
        """Pass a log level or a change of roots to the target, if a connection is open."""
        connections = self.connections(ctx)
        if name == "set_level":
            connections.sharing.with_level.add(ctx.connection_state)
        target = connections.existing(ctx.connection_state)
        if target is not None and name == "set_level":
            await target.set_level(params.level)
        elif target is not None and name == "on_roots_list_changed":
            try:
                await target.roots_changed()
            except MCPError as error:
                _log.debug("a change of roots was not sent to the target of %r: %s", self._name, error)


class ProxyProvider(TargetProvider, Provider):
    """The provider of a proxy, which passes all requests on as they are."""

    forwards = True

    def __init__(
        self,
        name: str,
        connector: ClientConnector,
        revision: Revision,
        connections: ConnectionLimits | None = None,
        own_methods: Collection[str] = (),
    ) -> None:
        """Create the provider of a target.

        Args:
            name: The name of the proxy, for messages.
            connector: Opens connections to the target.
            revision: The protocol version of the app.
            connections: How many it may have to the target. Default None: those of `ConnectionLimits`.
            own_methods: The methods that pass though the protocol does not have them.
        """
        super().__init__(name, revision)
        limits = connections or ConnectionLimits()
        places = limits.session_connections or connector.session_connections
        self._connector = connector
        self._connection_rules = ConnectionRules(limits.connections or MAX_CONNECTIONS, own_methods=own_methods)
        self._session_places = SessionPlaces(places, repr(name), "session_connections")
        self.on_open: Callable[[OpenUpstream, Translation], None] | None = None
        """Called with each connection that was opened."""

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[TargetConnections]:
        """Open connections when clients need them, and close all at the end."""
        teller = ChangeTeller(self._name)
        connections = TargetConnections(
            self._name, self._connector, self._revision, self._connection_rules, self._session_places, teller
        )
        connections.opener.on_open = self._opened
        try:
            yield connections
        finally:
            await connections.close()
            await teller.close()

    def _opened(self, upstream: OpenUpstream) -> None:
        if self.on_open is not None:
            self.on_open(upstream, Translation(self._revision, upstream.revision, LossCounter()))

    def connections(self, ctx: ServerContext) -> TargetConnections:
        """Return the connections of the app that is served."""
        connections: TargetConnections = ctx.connection_state.state[self]
        return connections

    async def call_tool(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool of the target."""
        return await self.forward("call_tool", ctx, params)

    async def get_prompt(self, ctx: ServerContext, params: Any) -> Any:
        """Return a prompt of the target."""
        return await self.forward("get_prompt", ctx, params)

    async def read_resource(self, ctx: ServerContext, params: Any) -> Any:
        """Return the contents of a resource of the target."""
        return await self.forward("read_resource", ctx, params)

    async def complete(self, ctx: ServerContext, params: Any) -> Any:
        """Return the suggestions of the target."""
        return await self.forward("complete", ctx, params)

    async def handle_lifecycle(
        self, name: str, ctx: ServerContext, params: Any, prefixes: tuple[str, ...], call_next: CallNext
    ) -> Any:
        """Pass the log level, subscriptions and changes of roots to the target, unless the client has no session."""
        if is_sessionless(ctx.connection_state):
            return await call_next(ctx, params)
        connections = self.connections(ctx)
        if name == "subscriptions_listen":
            return await self._listen(ctx, params, prefixes, call_next)
        if name == "subscribe" and (uri := inside_of(prefixes, params.uri)) is not None:
            await connections.subscribe(ctx, uri, params.uri)
        result = await call_next(ctx, params)
        if name == "unsubscribe":
            await connections.unsubscribe(ctx, params.uri)
        await self.pass_on(name, ctx, params)
        return result

    async def _listen(self, ctx: ServerContext, params: Any, prefixes: tuple[str, ...], call_next: CallNext) -> Any:
        """Subscribe to the lists and the resources of a client's stream while the stream is open."""
        connections = self.connections(ctx)
        outside = [uri for uris in filter_of(params).values() if is_list(uris) for uri in uris]
        subscribed: list[str] = []
        try:
            await connections.open_session(ctx)
            for uri in outside:
                inside = inside_of(prefixes, uri)
                if inside is not None:
                    await connections.subscribe(ctx, inside, uri)
                    subscribed.append(uri)
            return await call_next(ctx, params)
        finally:
            for uri in subscribed:
                await connections.unsubscribe(ctx, uri)


def inside_of(prefixes: tuple[str, ...], uri: str) -> str | None:
    """Return a URI without the prefixes of apps; None if it belongs to another app."""
    inside: str | None = uri
    for prefix in prefixes:
        inside = None if inside is None else strip_prefix(prefix, inside)
    return inside


# What a proxy shows of its target: its instructions, its title, description, icons and website, and capabilities.


def show_target(app: Any, target: Any) -> None:
    """Let a new proxy show what can be known before it connects: of an App, a Server or a connected Client."""
    if isinstance(target, BaseClient):
        if target.parts.session is not None:
            fields: dict[str, Any] = target.server.model_dump()
            _show(app, implementation_of(fields), fields.get("instructions"))
            _show_capabilities(app, fields.get("capabilities") or {})
    elif isinstance(target, BaseServer):
        _show(app, target.info, target.instructions)
        _show_capabilities(app, target.capabilities)
    elif isinstance(target, Servable):  # An app, whose server is created when it is first needed.
        info = {name: getattr(target, attribute, None) for name, attribute in _NAMES.items()}
        _show(app, info, getattr(target, "instructions", None))
        _show_capabilities(app, (target.registry.capabilities if isinstance(target, Administration) else None) or {})


def show_details(app: Any, upstream: OpenUpstream, translation: Translation) -> None:
    """Let a proxy show what its target has sent."""
    _show(app, translation.server_info(implementation_of(upstream.details)), upstream.details.get("instructions"))


def _show(app: Any, info: Mapping[str, Any], instructions: str | None) -> None:
    """Set what the author of the proxy has not set."""
    members: dict[str, Any] = app.__dict__
    server: BaseServer | None = members.get("server")
    if app.instructions is None and instructions:
        app.instructions = instructions
        if server is not None:
            server.instructions = instructions
    for name, attribute in _NAMES.items():
        if getattr(app, attribute) is None and info.get(name):
            setattr(app, attribute, info[name])
            if server is not None:
                server.info[name] = info[name]


def _show_capabilities(app: Any, capabilities: Mapping[str, Any]) -> None:
    """Declare what a proxy serves by passing messages, besides what its author has declared."""
    shown: dict[str, Any] = {}
    for kind in _SHOWN_CAPABILITIES:
        declared = capabilities.get(kind)
        if is_object(declared):
            names = {str(name): value for name, value in declared.items() if not str(name).endswith(_WITH_MESSAGES)}
            shown |= {kind: names} if names else {}
    if shown:
        merge(shown, app.registry.capabilities or {})
        app.registry.capabilities = shown


# Add the target of a proxy to its app.


def add_target(
    app: Any,
    target: Any,
    revisions: RevisionChoice,
    settings: Mapping[str, Any],
    limits: ConnectionLimits,
    methods: Sequence[str] = (),
) -> None:
    """Add a target to a new app; several servers of a configuration become mounted proxies.

    Args:
        app: The app.
        target: What `App.proxy` takes.
        revisions: The protocol versions that may be negotiated with the target.
        settings: The keywords of `Client.http` or `Client.stdio`.
        limits: How many connections the proxy may have to each server.
        methods: The methods of vendors that pass.

    Raises LocalError for a wrong target, a wrong limit or a wrong method.
    """
    if hasattr(target, "proxied"):
        app.proxied = [target]
    target = generated_of(target)
    rules = dict.fromkeys(limits._fields, COUNT.or_none())
    check_values("proxy", limits._asdict(), rules)
    entries = entries_of(target)
    if entries is not None and settings:
        raise LocalError(f"proxy() with a configuration takes no {next(iter(settings))!r}: write it into the entry")
    if not are_texts(methods):
        raise LocalError('proxy(): methods is a list of methods of vendors: write methods=["acme/search"]')
    if entries is not None and len(entries) > 1:
        if methods:
            raise LocalError("proxy() with several servers takes no 'methods': write a Gateway, with methods for one")
        names: dict[str, str] = {}
        for name, entry in entries.items():
            prefix = prefix_of(name)
            if names.setdefault(prefix, name) != name:
                raise LocalError(f"proxy(): {name!r} and {names[prefix]!r} get the same prefix {prefix!r}: rename one")
            inner = type(app)(name)
            _add_provider(inner, name, entry, revisions, {}, limits, ())
            app.registry.mount(inner, prefix)
        return
    name, entry = (app.name, target) if entries is None else next(iter(entries.items()))
    _add_provider(app, name, entry, revisions, settings, limits, methods)
    show_target(app, entry)


def _add_provider(
    app: Any,
    name: str,
    target: Any,
    revisions: RevisionChoice,
    settings: Mapping[str, Any],
    limits: ConnectionLimits,
    methods: Sequence[str],
) -> None:
    revision = app.server_class.revision
    try:
        connector = ClientConnector(app.client_class(), target, revisions, settings)
        chosen_revisions(revision.package, revisions)
    except (LocalError, TypeError) as error:
        raise type(error)(str(error).replace("connect()", "proxy()")) from None
    try:
        check_methods(methods, revision.package)
    except LocalError as error:
        raise LocalError(f"proxy(): {error}") from None
    provider = ProxyProvider(name, connector, revision, limits, methods)
    PassedMethods(app.registry).replace(dict.fromkeys(methods, provider.send_own))
    provider.on_open = partial(show_details, app)
    app.add_provider(provider)
