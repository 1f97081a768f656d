"""One server behind a gateway: what clients see of it, and the rules for each call."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from ..aio.rate_limit import RateLimit, TokenBucket
from ..app.components.uri_templates import may_serve
from ..app.proxy.connections import Connections
from ..app.proxy.proxy_provider import ProxyProvider
from ..app.proxy.targets import ClientFactory
from ..errors import JSONRPCError, RemoteJSONRPCError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, serialize
from ..protocol.revision import Revision
from ..protocol.uris import find_uri
from ..server.context import ServerContext
from .audit_log import AuditLog
from .definition_lock import ID_FIELDS, DefinitionLock
from .gateway_settings import UpstreamSettings
from .page.recent_records import RecentRecords
from .user_connections import UserConnections

CallNext = Callable[[ServerContext, Any], Awaitable[Any]]

_LISTED_SECONDS: Final = 60.0  # Seconds after which locked definitions are looked at again before a request.
_MAX_USERS: Final = 10_000  # Users whose rate is counted; the one that was silent for the longest time is dropped.


class UpstreamCounts:
    """How often a server was called: all calls, those that failed, those that a rule refused, and their seconds."""

    def __init__(self) -> None:
        """Create counts of zero."""
        self.calls = self.failed = self.refused = 0
        self.seconds = 0.0


class GatedUpstream(ProxyProvider):
    """The tools, resources and prompts of one server, as a gateway shows them."""

    forwards = False

    def __init__(
        self,
        name: str,
        settings: UpstreamSettings,
        factory: ClientFactory,
        users: UserConnections,
        revision: Revision,
        audit: AuditLog,
        lock: DefinitionLock | None,
    ) -> None:
        """Create the provider of a server, to which nothing is connected.

        Args:
            name: The name of the server in the settings.
            settings: What clients may use.
            factory: Makes the clients that connect to the server.
            users: The connections to the server.
            revision: The protocol version of the gateway.
            audit: Notes all calls.
            lock: The approved definitions; None allows all.
        """
        super().__init__(name, factory, revision)
        self.settings, self.lock = settings, lock
        self.counts = UpstreamCounts()
        self.failure: str | None = None
        """Why the server could not be reached when it was used last; None if it could."""
        self.records: RecentRecords | None = None
        """Notes the calls for the page of the gateway, if it has one."""
        self._audit = audit
        self._users = users
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        # What the lock has, by user and kind, and when it was listed.
        self._accepted: OrderedDict[tuple[str, str], tuple[float, frozenset[str]]] = OrderedDict()
        self._cache: dict[tuple[str, str | None], tuple[float, Any]] = {}

    def change(self, settings: UpstreamSettings, lock: DefinitionLock | None) -> None:
        """Use other rules for the same server, from the next request on."""
        self.settings, self.lock = settings, lock
        self._buckets.clear()
        self._cache.clear()
        self._accepted.clear()

    def _connections(self, ctx: ServerContext) -> Connections:
        return self._users.of(ctx)

    async def close(self) -> None:
        """Close all connections to the server."""
        await self._users.close()

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[Any]:
        """Close the connections at the end."""
        try:
            yield None
        finally:
            await self.close()

    # ---- lists -------------------------------------------------------------------------------------------------------

    async def forward(self, name: str, ctx: ServerContext, params: Any) -> Any:
        """Return the server's result of a request, or a list that the server lets all clients cache."""
        key = (name, getattr(params, "cursor", None))
        cached = self._cache.get(key) if self.settings.cache else None
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        with self._noting_failure():
            result = await super().forward(name, ctx, params)
        milliseconds = getattr(result, "ttl_ms", None)
        if self.settings.cache and name.startswith("list_") and milliseconds and result.cache_scope == "public":
            self._cache[key] = time.monotonic() + milliseconds / 1000, result
        return result

    @contextmanager
    def _noting_failure(self) -> Generator[None]:
        """Note whether the server could be reached."""
        try:
            yield
        except JSONRPCError as error:
            is_remote = isinstance(error.__cause__, RemoteJSONRPCError)
            self.failure = str(error) if error.code == INTERNAL_ERROR and not is_remote else None
            raise
        self.failure = None

    async def list_tools(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the tools that clients may use, with their changes."""
        tools = [tool for tool in await super().list_tools(ctx) if self.settings.allows(tool.name)]
        tools = self._locked(ctx, "tools", tools)
        shown = {self.settings.outside(tool.name): self._changed(tool) for tool in tools}
        return [tool for name, tool in shown.items() if self.settings.inside(name) is not None]

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

    async def list_prompts(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the prompts of the server, if clients may use them."""
        return self._locked(ctx, "prompts", await super().list_prompts(ctx)) if self.settings.prompts else ()

    async def list_resources(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the resources of the server, if clients may use them."""
        return self._locked(ctx, "resources", await super().list_resources(ctx)) if self.settings.resources else ()

    async def list_resource_templates(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the resource templates of the server, if clients may use them."""
        if not self.settings.resources:
            return ()
        return self._locked(ctx, "resource_templates", await super().list_resource_templates(ctx))

    # ---- the lock ----------------------------------------------------------------------------------------------------

    def _locked(self, ctx: ServerContext, kind: str, items: Sequence[Any]) -> list[Any]:
        """Return the definitions that the lock has, all without one, and remember them."""
        accepted = [*items] if self.lock is None else self.lock.accepted(self._name, kind, items)
        ids = frozenset(getattr(item, ID_FIELDS[kind]) for item in accepted)
        key = self._users.key(ctx), kind
        self._accepted[key] = time.monotonic(), ids
        self._accepted.move_to_end(key)
        if len(self._accepted) > _MAX_USERS:
            self._accepted.popitem(last=False)
        return accepted

    def summary(self) -> dict[str, Any]:
        """Return the state of the server for the page of the gateway, as JSON."""
        lists: dict[str, set[str]] = {}
        for (_, kind), (_, ids) in self._accepted.items():
            lists.setdefault(kind, set()).update(ids)
        return {
            "name": self._name,
            "state": "ok" if self.failure is None else "failed",
            "failure": None if self.failure is None else self.failure.partition("; its standard error")[0],
            **{key: getattr(self.counts, key) for key in ("calls", "failed", "refused")},
            "seconds": round(self.counts.seconds, 3),
            "lists": {kind: sorted(ids) for kind, ids in lists.items()},
        }

    async def _accepted_ids(self, ctx: ServerContext, kind: str) -> frozenset[str]:
        """Return the names or URIs that the lock has; list the definitions if they were not listed lately."""
        key = self._users.key(ctx), kind
        listed, _ = self._accepted.get(key, (float("-inf"), frozenset()))
        if time.monotonic() - listed > _LISTED_SECONDS:
            await getattr(self, f"list_{kind}")(ctx)
        return self._accepted[key][1]

    async def _is_accepted(self, ctx: ServerContext, kind: str, id: str) -> bool:
        """Return True if there is no lock, or if it has a definition: for a URI, that of a resource or a template."""
        if self.lock is None:
            return True
        accepted = await self._accepted_ids(ctx, kind)
        if id in accepted or (ID_FIELDS[kind] != "name" and find_uri(id, accepted) is not None):
            return True
        if kind != "resources":
            return False
        return any(may_serve(template, id) for template in await self._accepted_ids(ctx, "resource_templates"))

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def call_tool(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool, if the rules of the gateway allow the call. Raises JSONRPCError."""
        return await self._noted("tool", params.name, ctx, self._call(ctx, params))

    async def get_prompt(self, ctx: ServerContext, params: Any) -> Any:
        """Return a prompt of the server. Raises JSONRPCError if clients may not use it."""
        request = self._allowed(ctx, "prompts", params.name, f"unknown prompt: {params.name!r}", "get_prompt", params)
        return await self._noted("prompt", params.name, ctx, request)

    async def read_resource(self, ctx: ServerContext, params: Any) -> Any:
        """Return the contents of a resource. Raises JSONRPCError if clients may not use it."""
        refusal = f"resource not found: {params.uri!r}"
        request = self._allowed(ctx, "resources", params.uri, refusal, "read_resource", params)
        return await self._noted("resource", params.uri, ctx, request)

    async def complete(self, ctx: ServerContext, params: Any) -> Any:
        """Return the suggestions of the server for what clients may use; None for anything else."""
        uri: str | None = getattr(params.ref, "uri", None)
        kind, id = ("prompts", params.ref.name) if uri is None else ("resource_templates", uri)
        is_shown = self.settings.prompts if uri is None else self.settings.resources
        return await super().complete(ctx, params) if is_shown and await self._is_accepted(ctx, kind, id) else None

    async def _allowed(self, ctx: ServerContext, kind: str, id: str, refusal: str, name: str, params: Any) -> Any:
        """Return the result of a request for what clients may use. Raises JSONRPCError with the refusal for others."""
        if not getattr(self.settings, kind) or not await self._is_accepted(ctx, kind, id):
            raise _RefusedError(refusal)
        return await self._timed(ctx, self.forward(name, ctx, params))

    async def handle_lifecycle(
        self, name: str, ctx: ServerContext, params: Any, prefixes: tuple[str, ...], call_next: CallNext
    ) -> Any:
        """Pass the log level, subscriptions and changes of roots to the server, if the request may use it."""
        if not self._users.may_serve(ctx):
            return await call_next(ctx, params)
        return await super().handle_lifecycle(name, ctx, params, prefixes, call_next)

    async def _call(self, ctx: ServerContext, params: Any) -> Any:
        tool = self.settings.inside(params.name)
        if tool is None or not await self._is_accepted(ctx, "tools", tool):
            raise _RefusedError(f"unknown tool: {params.name!r}")
        change = self.settings.tools.get(tool)
        arguments: dict[str, Any] = params.arguments or {}
        if change is not None:
            if fixed := next((key for key in change.arguments if key in arguments), None):
                raise _RefusedError(f"{params.name!r} has no argument {fixed!r}: the gateway sets it")
            arguments = {**arguments, **change.arguments}
        changed = params.model_copy(update={"name": tool, "arguments": arguments})
        return await self._timed(ctx, self.forward("call_tool", ctx, changed))

    async def _timed(self, ctx: ServerContext, request: Any) -> Any:
        """Return the result of a request. Raises JSONRPCError after the time of the settings, without that to start."""
        try:
            with self._noting_failure():
                await self._users.of(ctx).of_session(ctx)
        except JSONRPCError:
            request.close()
            raise
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await request
        except TimeoutError:
            seconds = self.settings.timeout
            raise JSONRPCError(INTERNAL_ERROR, f"{self._name!r} has not answered within {seconds:g} s") from None

    async def _noted(self, kind: str, name: str, ctx: ServerContext, request: Any) -> Any:
        """Return the result of a request within the rate of its user; count it, and write it to the audit log."""
        user = "" if ctx.user is None else ctx.user.key
        began, outcome, size = time.monotonic(), "failed", None
        self.counts.calls += 1
        records = self.records
        number = 0 if records is None else records.call_began({"upstream": self._name, "kind": kind, "name": name})
        try:
            if wait := self._wait(user):
                request.close()
                raise _RefusedError(f"too many requests to {self._name!r}", {"retryAfter": round(wait, 3)})
            result = await request
            outcome = "error" if getattr(result, "is_error", None) else "done"
            size = None if records is None else len(serialize(result))
            return result
        except _RefusedError as error:
            outcome = "refused"
            self.counts.refused += 1
            raise JSONRPCError(error.code, error.message, error.data) from None
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            seconds = time.monotonic() - began
            self.counts.seconds += seconds
            self.counts.failed += outcome == "failed"
            if records is not None:
                records.call_ended(number, outcome=outcome, seconds=seconds, size=size)
            self._audit.write(upstream=self._name, kind=kind, name=name, user=user, outcome=outcome, seconds=seconds)

    def _wait(self, user: str) -> float:
        """Count a request of a user, and return 0.0; above the rate, return the seconds to wait."""
        rate = self.settings.rate
        if rate is None:
            return 0.0
        bucket = self._buckets.get(user)
        if bucket is None:
            bucket = self._buckets[user] = TokenBucket(RateLimit(rate, max(1, int(rate))))
        self._buckets.move_to_end(user)
        if len(self._buckets) > _MAX_USERS:
            self._buckets.popitem(last=False)
        return bucket.acquire()


class _RefusedError(JSONRPCError):
    """A rule of the gateway refuses a request."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(INVALID_PARAMS, message, data)
