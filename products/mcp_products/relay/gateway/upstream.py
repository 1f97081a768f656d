"""One server behind a gateway: what clients see of it, and the rules for each message about it."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcp_products.app.components.kinds import ComponentKind
from mcp_products.app.components.named_things import ThingKind
from mcp_products.app.components.uris import may_serve
from mcp_products.app.context.state import received_request
from mcp_products.code_mode.savings import savings_of
from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio import clock as clocks
from mcp_runtime.aio.rates import RateLimit
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, serialize
from mcp_runtime.protocol.revision import Revision, Sent
from mcp_runtime.protocol.uris import find_uri
from mcp_runtime.server.context import ServerContext, share_key
from mcp_runtime.server.limits import ClientRate
from mcp_runtime.usage.texts import quoted, shortened

from ..proxy.client_side import ChangeTeller
from ..proxy.connections import TargetConnections
from ..proxy.provider import TargetProvider
from ..upstream.opening import MAX_DELAY, NoAnswerError, is_outage
from ..upstream.places import FairPlaces, NoSessionPlaceError
from ..upstream.translation import AnsweredError
from .breaker import CircuitBreaker, CircuitOpenError
from .page import RecentRecords
from .rules import ID_FIELDS, AuditLog, DefinitionLock, Listing, Listings
from .settings import UpstreamSettings

if TYPE_CHECKING:
    from . import token_exchange
    from .token_exchange import TokenExchange, UserToken
else:  # Imported when they are used.
    token_exchange = LazyModule("mcp_products.relay.gateway.token_exchange")


# The connections to one server of a gateway: those of all users, or with a token exchange those of each user.

_MAX_USERS: Final = 1000  # Tokens with connections of their own; those of the one that was silent longest are closed.
T = TypeVar("T")
_log: Final = logging.getLogger("mcp_runtime.gateway")

_RELIST_SECONDS: Final = 1.0  # Seconds after a list in which an unknown name does not cause another one.
_MAX_LISTS: Final = 16  # Lists of the server that are read at the same time.
_MAX_FAILURE: Final = 500  # Characters of a failure that are kept.
_MAX_SHOWN: Final = 500  # Names of a list on the page.
_REQUESTS: Final = "requests"
_LOCATED: Final = ("resource", "template")
_USES: Final[Mapping[ComponentKind, tuple[str, str]]] = {  # Who handles the request, and how it is refused.
    "tool": ("call_tool", "unknown tool"),
    "prompt": ("get_prompt", "unknown prompt"),
    "resource": ("read_resource", "resource not found"),
}
_LISTS: Final = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "resource_templates"}


class UserConnections:
    """The connections to one server. With a token exchange, only tokens that allow the same have the same connections.

    What a token allows is told by its claims; of tokens without claims, each has its own connections.
    """

    def __init__(
        self, name: str, make: Callable[[Any, ChangeTeller], TargetConnections], exchange: TokenExchange | None
    ) -> None:
        """Create the connections; none is open.

        Args:
            name: The name of the server, for messages.
            make: Returns connections with an authorization of httpx2 or None: with an exchange, those of one token.
                Its second argument tells clients without sessions what has changed.
            exchange: Gets tokens for the users; None if the credentials of the settings are those of all users.
        """
        self._name = name
        self._make = make
        self._exchange = exchange
        self.teller = ChangeTeller(name)
        self._shared = make(None, self.teller)
        self._users: OrderedDict[str, tuple[UserToken, TargetConnections]] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def key(self, ctx: ServerContext) -> str:
        """Return the key of the connections of a request: what its token allows; empty if all users have the same."""
        token = None if self._exchange is None else self._token(ctx)
        return "" if token is None else _key_of(ctx.user, token)

    def _token(self, ctx: ServerContext) -> str | None:
        """Return the access token of the user of a request; None if it has no user or no token."""
        request = received_request(ctx)
        return None if ctx.user is None or request is None else bearer_token(request.headers)

    def may_serve(self, ctx: ServerContext) -> bool:
        """Return True unless a request has no user, and the server needs one."""
        return self._exchange is None or ctx.user is not None

    def of(self, ctx: ServerContext) -> TargetConnections:
        """Return the connections for a request. Raises JSONRPCError if it has no token to exchange."""
        if self._exchange is None:
            return self._shared

        user, token = ctx.user, self._token(ctx)
        if user is None or token is None:
            raise JSONRPCError(INVALID_REQUEST, f"{self._name!r} needs the access token of a user")
        key = _key_of(user, token)
        entry = self._users.get(key)
        if entry is None:
            own = token_exchange.UserToken(self._exchange)
            entry = self._users[key] = own, self._make(own, self.teller)
        self._users.move_to_end(key)
        entry[0].use(token, user.expires_at)  # It was verified: only then a request has a user.
        if len(self._users) > _MAX_USERS:
            task = asyncio.ensure_future(self._users.popitem(last=False)[1][1].retire())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return entry[1]

    def is_opening(self, ctx: ServerContext) -> bool:
        """Return True while the connection for a request opens."""
        return self.may_serve(ctx) and self.of(ctx).is_opening(ctx)

    def _all(self) -> list[TargetConnections]:
        return [self._shared, *(own for _, own in self._users.values())]

    def watched(self) -> list[tuple[ServerContext, str, str]]:
        """Return who watches which resources: by the URI of the server, and by the one that clients have for it."""
        return [watch for connections in self._all() for watch in connections.watched()]

    def unwatch(self) -> None:
        """End the subscriptions to resources of all connections."""
        for connections in self._all():
            connections.unwatch()

    async def retire(self) -> None:
        """Close all connections as soon as no request has one."""
        await asyncio.gather(*(connections.retire() for connections in self._all()))
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        connections = self._all()
        self._users.clear()
        await asyncio.gather(*(item.close() for item in connections), *self._closing)
        await self.teller.close()


def bearer_token(headers: Any) -> str | None:
    """Return the access token of the headers of a request; None without one."""
    scheme, _, token = (headers.get("authorization") or "").partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "dpop") and token.strip() else None


def _key_of(user: Any, token: str) -> str:
    rights: str = user.rights_key
    return rights if user.claims else f"{rights} {sha256(token.encode()).hexdigest()}"


class UpstreamCounts:
    """How often a server was called: all calls, those that failed, those that a rule refused, and their seconds."""

    def __init__(self) -> None:
        """Create counts of zero."""
        self.calls = self.failed = self.refused = 0
        self.seconds = 0.0


class GatedUpstream(TargetProvider):
    """The tools, resources and prompts of one server, as a gateway shows them.

    `may_use` is the one rule of access: each message that names a tool, a prompt, a resource or a template asks it.
    """

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        users: UserConnections,
        revision: Revision,
        audit: AuditLog,
        lock: DefinitionLock | None,
    ) -> None:
        """Create the provider of a server, to which nothing is connected.

        Args:
            name: The name of the server in the settings.
            settings: What clients may use.
            users: The connections to the server.
            revision: The protocol version of the gateway.
            audit: Notes all calls.
            lock: The approved definitions; None allows all.
        """
        super().__init__(name, revision)
        self.counts = UpstreamCounts()
        self.breaker = CircuitBreaker(name, settings.breaker)
        self.breaker.on_close = self._returned
        self.records: RecentRecords | None = None
        """Notes the calls for the page of the gateway, if it has one."""
        self.on_return: Callable[[], None] | None = None
        """Called when a connection is open for which a list has not waited."""
        self._failures: dict[str, str] = {}
        self._is_awaited = False
        self._list_places = FairPlaces(_MAX_LISTS)
        self._audit = audit
        self._users = users
        self._listings = Listings()
        self._tokens: tuple[list[str], dict[str, int]] = ([], {})  # Of the tools that were listed last.
        self._cache: dict[str, tuple[float, list[Any]]] = {}
        self.teller = users.teller
        self.teller.on_list = self._forget
        self.change(settings, lock)

    def change(self, settings: UpstreamSettings, lock: DefinitionLock | None) -> None:
        """Use other rules for the same server, from the next message on."""
        self.settings = settings
        self.lock = lock
        self.limits = settings.limits
        self.breaker.change(settings.breaker)
        rate = settings.rate
        limit = None if rate is None else RateLimit(rate, max(1, int(rate)))
        self._rate = None if limit is None else ClientRate(f"gateway {self._name}", limit)
        self._cache.clear()
        self._listings.clear()
        if not settings.resources:
            self._users.unwatch()

    @property
    def failure(self) -> str | None:
        """Why the server did not serve when it was used last; None if it did."""
        return self.breaker.reason if self.breaker.state != "closed" else next(iter(self._failures.values()), None)

    @property
    def max_delay(self) -> float:
        """The longest time that a connection waits after failures: a probe of the circuit breaker does not."""
        breaker = self.settings.breaker
        return MAX_DELAY if breaker is None else min(MAX_DELAY, breaker.delay)

    def connected(self) -> None:
        """Note that a connection to the server is open now."""
        if self._is_awaited:
            self._returned()
        self._is_awaited = False

    def not_connected(self, error: Exception) -> None:
        """Note that a connection to the server could not be opened."""
        if is_outage(error):
            self.breaker.failed(error.reason if isinstance(error, ConnectionClosedError) else str(error))

    def _returned(self) -> None:
        if self.on_return is not None:
            self.on_return()

    def connections(self, ctx: ServerContext) -> TargetConnections:
        """Return the connections for a request. Raises JSONRPCError if it has no token to exchange."""
        return self._users.of(ctx)

    async def retire(self, successor: GatedUpstream | None) -> None:
        """Close all connections to the server when the requests that use them end. Subscriptions go on at the one that
        the settings have instead, if its URIs are the same and its rules allow that."""
        if successor is not None and successor.settings.prefix == self.settings.prefix:
            for ctx, inside, outside in self._users.watched():
                try:
                    await successor.watch(ctx, inside, outside)
                    await successor.connections(ctx).of_session(ctx).downstream.changed(inside)  # It may have.
                except MCPError as error:
                    _log.warning("the subscription to %s has ended: %s", quoted(outside), error)
        self._users.unwatch()
        await self._users.retire()

    async def close(self) -> None:
        """Close all connections to the server."""
        await self._users.close()

    @contextmanager
    def _noting_failure(self, ctx: ServerContext, what: str) -> Generator[None]:
        """Note whether the server has served a list, or else a request: there, an error is an answer.

        Raises CircuitOpenError while the server is not asked.
        """
        try:
            with self.breaker.guard(share_key(ctx)):
                yield
        except (NoSessionPlaceError, CircuitOpenError):
            raise  # It is the client that has too many, or the server was not asked.
        except JSONRPCError as error:
            is_answer = isinstance(error, AnsweredError)
            if is_answer and what == _REQUESTS:
                self._failures.pop(what, None)
            elif is_answer or error.code == INTERNAL_ERROR:
                self._failures[what] = shortened(str(error), _MAX_FAILURE)
            raise
        self._failures.pop(what, None)

    # ---- lists -------------------------------------------------------------------------------------------------------

    async def _list(self, ctx: ServerContext, kind: str) -> list[Any]:
        """Return the definitions of a kind that clients may use, and note which these are."""
        if not self.settings.shows(kind) or not _has_scopes(ctx, self.settings.scopes):
            return []
        cached = self._cache.get(kind) if self.settings.cache and self.breaker.state == "closed" else None
        if cached is not None and cached[0] > clocks.monotonic():
            items = cached[1]
        else:
            with self._noting_failure(ctx, f"list_{kind}"):
                items = await self._read(ctx, kind)
        if kind == "tools":
            items = [tool for tool in items if self.settings.allows(tool.name)]
        if self.lock is not None:
            items = self.lock.accepted(self._name, kind, items)
        ids = frozenset(getattr(item, ID_FIELDS[kind]) for item in items)
        self._listings.put(ctx, self._users.key(ctx), kind, ids)
        if kind == "tools":  # What was listed is noted for all users; each sees what the scopes of the token allow.
            items = [tool for tool in items if _has_scopes(ctx, self.settings.scopes_of(tool.name))]
        return items

    def _forget(self, kind: str) -> None:
        """Forget a list that has changed: clients read it when they are told."""
        for changed in (kind, "resource_templates") if kind == "resources" else (kind,):
            self._cache.pop(changed, None)

    async def _read(self, ctx: ServerContext, kind: str) -> list[Any]:
        """Return a list of the server. Few are read at the same time, so that long ones take a bounded memory; clients
        share these places, so that many sessions of one leave some to the others."""
        client = share_key(ctx)
        try:
            async with asyncio.timeout(self.limits.seconds):
                await self._list_places.take(client)
        except TimeoutError:
            self._is_awaited = self._users.is_opening(ctx)
            raise self._late(self.limits.seconds) from None
        try:
            return await self._repeated(ctx, lambda ends: self._read_pages(ctx, kind, ends))
        finally:
            self._list_places.give_back(client)

    async def _repeated(self, ctx: ServerContext, read: Callable[[float], Awaitable[T]]) -> T:
        """Return what is read of the server until a time; read once more if the connection broke: that runs nothing."""
        ends = asyncio.get_running_loop().time() + self.limits.seconds
        try:
            return await read(ends)
        except NoAnswerError as error:
            if not self._may_repeat(ctx, error):
                raise
        return await read(ends)

    def _may_repeat(self, ctx: ServerContext, error: NoAnswerError) -> bool:
        """Return True for the first failure of connections, after which the next one is opened at once."""
        is_first = self.breaker.state == "closed" and not self._users.of(ctx).opener.is_waiting
        return error.is_outage and not error.is_late and is_first

    async def _read_pages(self, ctx: ServerContext, kind: str, ends: float) -> list[Any]:
        items: list[Any] = []
        seconds = float("inf")
        try:
            async for page in self.pages(ctx, kind, ends):
                items += getattr(page, kind)
                is_public = getattr(page, "cache_scope", None) == "public"
                seconds = min(seconds, (page.ttl_ms or 0) / 1000 if is_public else 0.0)
        except JSONRPCError:
            self._is_awaited = self._users.is_opening(ctx)
            raise
        if self.settings.cache and 0 < seconds < float("inf"):
            self._cache[kind] = clocks.monotonic() + seconds, items
        return items

    async def list_tools(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the tools that clients may use, with their changes."""
        tools = {tool.name: tool for tool in await self._list(ctx, "tools")}
        settings = self.settings
        listed = [
            self._changed(tool) for tool in tools.values() if settings.inside(settings.outside(tool.name)) == tool.name
        ]
        if self.records is not None and (names := [tool.name for tool in listed]) != self._tokens[0]:
            self._tokens = names, savings_of(tool.model_dump() for tool in listed)
        return listed

    def _changed(self, tool: Any) -> Any:
        """Return a definition with its new name and description, and without the fixed arguments."""
        change = self.settings.tools.get(tool.name)
        if change is None:
            return tool
        fields: dict[str, Any] = tool.model_dump()
        fields["name"] = self.settings.outside(tool.name)
        if change.description is not None:
            fields["description"] = change.description
        schema: dict[str, Any] = {**fields["inputSchema"]}
        fixed = change.arguments
        if fixed and "properties" in schema:
            schema["properties"] = {key: item for key, item in schema["properties"].items() if key not in fixed}
        if fixed and "required" in schema:
            schema["required"] = [key for key in schema["required"] if key not in fixed]
        fields["inputSchema"] = schema
        model: Any = tool.__class__
        return model.model_validate(fields)

    def summary(self) -> dict[str, Any]:
        """Return the state of the server for the page of the gateway, as JSON."""
        lists: dict[str, set[str]] = {}
        for kind, ids in self._listings.all():
            lists.setdefault(kind, set()).update(ids)
        failure = self.failure
        return {
            "name": self._name,
            "state": "ok" if failure is None else "failed",
            "circuit": self.breaker.state,
            "failure": failure,
            **{key: getattr(self.counts, key) for key in ("calls", "failed", "refused")},
            "seconds": round(self.counts.seconds, 3),
            "tokens": self._tokens[1],
            "lists": {kind: [shortened(id) for id in sorted(ids)[:_MAX_SHOWN]] for kind, ids in lists.items()},
        }

    # ---- the rule of access ------------------------------------------------------------------------------------------

    async def may_use(self, ctx: ServerContext, kind: ThingKind, id: str) -> bool:
        """Return True if a client may use what a message names, by the settings, the lock and what the server lists.

        A name is passed to the server only as the server lists it. A URI need not be in a list, except with a lock.
        Raises JSONRPCError if the server cannot be asked, and for a user without the scopes that it needs.
        """
        self._require_scopes(ctx, id if kind == "tool" else None)
        if kind == "task" or not self.settings.shows(_LISTS[kind]) or (kind == "tool" and not self.settings.allows(id)):
            return False
        if self.lock is not None:
            return await self._is_locked_now(ctx, kind, id)
        return kind in _LOCATED or await self.lists(ctx, kind, id)

    def _require_scopes(self, ctx: ServerContext, tool: str | None) -> None:
        try:
            ctx.require_scopes(*self.settings.scopes_of(tool))
        except JSONRPCError as error:
            raise _RefusedError(error.message, error.data, error.code) from None

    async def lists(self, ctx: ServerContext, kind: ThingKind, id: str) -> bool:
        """Return True if the server lists a name or a URI, or a template that matches the URI.

        The last list is asked first. If it does not have it, and is older than a second, the server is asked.
        """
        if not _has_scopes(ctx, self.settings.scopes):
            return False
        ids = (await self._listing(ctx, _LISTS[kind], id)).ids
        if id in ids or (kind in _LOCATED and find_uri(id, ids) is not None):
            return True
        if kind != "resource":
            return False
        templates = await self._listing(ctx, "resource_templates", None)
        return any(may_serve(template, id) for template in templates.ids)

    async def _listing(self, ctx: ServerContext, kind: str, id: str | None) -> Listing:
        """Return the last list of a kind; a new one if the last is old and does not have an id."""
        user = self._users.key(ctx)
        listing = self._listings.get(ctx, user, kind)
        is_new = listing is not None and clocks.monotonic() - listing.time < _RELIST_SECONDS
        if listing is None or not (is_new or id is None or id in listing.ids):
            await self._list(ctx, kind)
            listing = self._listings.get(ctx, user, kind)
        assert listing is not None, "a list that was read is kept"
        return listing

    async def _is_locked_now(self, ctx: ServerContext, kind: ThingKind, id: str) -> bool:
        """Return True if the server has a definition now, and the lock has the same.

        The list is read for each request, until the definition was found: a lock of some seconds ago is none.
        """
        list_kind, field = _LISTS[kind], ID_FIELDS[_LISTS[kind]]

        def is_meant(item: Any) -> bool:
            own = getattr(item, field)
            return own == id or (kind in _LOCATED and find_uri(id, [own]) is not None)

        with self._noting_failure(ctx, f"list_{list_kind}"):
            if await self._repeated(ctx, lambda ends: self._has_locked(ctx, list_kind, is_meant, ends)):
                return True
            if kind != "resource":
                return False

            def is_template(item: Any) -> bool:
                return may_serve(item.uri_template, id)

            return await self._repeated(
                ctx, lambda ends: self._has_locked(ctx, "resource_templates", is_template, ends)
            )

    async def _has_locked(self, ctx: ServerContext, kind: str, is_meant: Callable[[Any], bool], ends: float) -> bool:
        assert self.lock is not None, "only a gateway with a lock asks"
        async with aclosing(self.pages(ctx, kind, ends)) as pages:
            async for page in pages:
                meant = [item for item in getattr(page, kind) if is_meant(item)]
                if self.lock.accepted(self._name, kind, meant):
                    return True
        return False

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def use(self, kind: ComponentKind, ctx: ServerContext, params: Any, shown: str) -> Any:
        """Return the result of a tool, a prompt or the contents of a resource, if clients may use it.

        Args:
            kind: What it is.
            ctx: The context of the request.
            params: Its params, with the name or the URI as clients have it, without the prefix.
            shown: The name or the URI with the prefix.

        Raises JSONRPCError.
        """
        id: str = params.uri if kind == "resource" else params.name
        handler, refusal = _USES[kind]

        async def send() -> Any:
            own = self.settings.inside(id) if kind == "tool" else id
            if own is None or not await self.may_use(ctx, kind, own):
                raise _RefusedError(f"{refusal}: {quoted(shown)}")
            sent = self._with_arguments(params, own, shown) if kind == "tool" else params
            return await self._timed(handler, ctx, sent)

        return await self._noted(kind, id, ctx, send)

    def _with_arguments(self, params: Any, tool: str, shown: str) -> Any:
        """Return the params of a call for the server: with its name of the tool, and the fixed arguments."""
        change = self.settings.tools.get(tool)
        fixed = {} if change is None else change.arguments
        arguments: dict[str, Any] = params.arguments or {}
        if given := next((key for key in fixed if key in arguments), None):
            raise _RefusedError(f"{quoted(shown)} has no argument {given!r}: the gateway sets it")
        return params.model_copy(update={"name": tool, "arguments": {**arguments, **fixed}})

    async def use_completion(self, ctx: ServerContext, params: Any, kind: ThingKind, id: str) -> Any:
        """Return the suggestions of the server for what clients may use; None for anything else."""

        async def complete() -> Any:
            if not await self.may_use(ctx, kind, id):
                return None
            return await self._timed("complete", ctx, params)

        return await self._noted("completion", id, ctx, complete)

    async def use_method(
        self, ctx: ServerContext, method: str, kind: type[Sent], params: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the result of a method that the protocol does not have. Raises JSONRPCError."""

        async def send() -> dict[str, Any]:
            self._require_scopes(ctx, None)
            result: dict[str, Any] = await self._once_connected(
                ctx, lambda seconds: self.send_own(ctx, method, kind, params, seconds)
            )
            return result

        result: dict[str, Any] = await self._noted("method", method, ctx, send)
        return result

    async def watch(self, ctx: ServerContext, uri: str, shown: str) -> None:
        """Let a client know when a resource changes. Raises JSONRPCError if clients may not use it."""

        async def subscribe() -> None:
            if not await self.may_use(ctx, "resource", uri):
                raise _RefusedError(f"resource not found: {quoted(shown)}")
            with self.breaker.guard(share_key(ctx)):
                try:
                    async with asyncio.timeout(self.limits.seconds):
                        await self._users.of(ctx).subscribe(ctx, uri, shown)
                except TimeoutError:
                    raise self._late(self.limits.seconds) from None

        await self._noted("subscription", uri, ctx, subscribe)

    async def unwatch(self, ctx: ServerContext, shown: str) -> None:
        """Let a client know of no changes of a resource any more."""
        if self._users.may_serve(ctx):
            await self._users.of(ctx).unsubscribe(ctx, shown)

    async def pass_on(self, name: str, ctx: ServerContext, params: Any) -> None:
        """Pass a log level or a change of roots to the server, if the request may use it. Raises JSONRPCError."""
        if self._users.may_serve(ctx) and _has_scopes(ctx, self.settings.scopes):
            try:
                async with asyncio.timeout(self.limits.seconds):
                    await super().pass_on(name, ctx, params)
            except TimeoutError:
                raise self._late(self.limits.seconds) from None

    async def _timed(self, name: str, ctx: ServerContext, params: Any) -> Any:
        return await self._once_connected(ctx, lambda seconds: self.forward(name, ctx, params, seconds))

    async def _once_connected(self, ctx: ServerContext, send: Callable[[float | None], Awaitable[Any]]) -> Any:
        """Return the result of a request, which is sent once; `send` gets the seconds that it may take.

        Raises JSONRPCError after the time of the settings, without that to start.
        """
        try:
            with self._noting_failure(ctx, _REQUESTS):
                try:
                    return await send(self.settings.timeout)
                except NoAnswerError as error:
                    if error.was_open or not self._may_repeat(ctx, error):
                        raise  # It may have run.
                return await send(self.settings.timeout)
        except TimeoutError:
            assert self.settings.timeout is not None, "only a time that was set has passed"
            raise self._late(self.settings.timeout) from None

    def _late(self, seconds: float) -> NoAnswerError:
        return NoAnswerError(f"{self._name!r} has not answered within {seconds:g} s", is_outage=False)

    async def _noted(self, kind: str, name: str, ctx: ServerContext, request: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a request within the rate of its client; count it, and write it to the audit log."""
        began, outcome, size = clocks.monotonic(), "failed", None
        self.counts.calls += 1
        records = self.records
        number = 0 if records is None else records.call_began({"upstream": self._name, "kind": kind, "name": name})
        try:
            if self._rate is not None and (wait := await self._rate.wait(ctx)):
                raise _RefusedError(f"too many requests to {self._name!r}", {"retryAfter": round(wait, 3)})
            result = await request()
            outcome = "error" if getattr(result, "is_error", None) else "done"
            size = None if records is None or result is None else len(serialize(result))
            return result
        except _RefusedError as error:
            outcome = "refused"
            self.counts.refused += 1
            raise JSONRPCError(error.code, error.message, error.data) from None
        except CircuitOpenError:
            outcome = "refused"
            self.counts.refused += 1
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            seconds = clocks.monotonic() - began
            self.counts.seconds += seconds
            self.counts.failed += outcome == "failed"
            if records is not None:
                records.call_ended(number, outcome=outcome, seconds=seconds, size=size)
            user = "" if ctx.user is None else ctx.user.key
            self._audit.write(upstream=self._name, kind=kind, name=name, user=user, outcome=outcome, seconds=seconds)


class _RefusedError(JSONRPCError):
    """A rule of the gateway refuses a request."""

    def __init__(self, message: str, data: Any = None, code: int = INVALID_PARAMS) -> None:
        super().__init__(code, message, data)


def _has_scopes(ctx: ServerContext, scopes: Sequence[str]) -> bool:
    """Return True if the user of a request has some scopes; over stdio nobody needs any."""
    if not scopes or ctx.channel.auth is None:
        return True
    return ctx.user is not None and ctx.user.scopes.issuperset(scopes)
