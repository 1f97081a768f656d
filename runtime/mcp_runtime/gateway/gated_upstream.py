"""One server behind a gateway: what clients see of it, and the rules for each call."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from ..aio.rate_limit import RateLimit, TokenBucket
from ..app.proxy.connections import Connections
from ..app.proxy.proxy_provider import ProxyProvider
from ..app.proxy.targets import ClientFactory
from ..errors import JSONRPCError, RemoteJSONRPCError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..protocol.revision import Revision
from ..server.context import ServerContext
from .audit_log import AuditLog
from .gateway_settings import UpstreamSettings
from .tool_lock import ToolLock

_LISTED_SECONDS: Final = 60.0  # Seconds after which the definition of a locked tool is looked at again before a call.
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
        revision: Revision,
        audit: AuditLog,
        lock: ToolLock | None,
    ) -> None:
        """Create the provider of a server, to which nothing is connected.

        Args:
            name: The name of the server in the settings.
            settings: What clients may use.
            factory: Makes the clients that connect to the server.
            revision: The protocol version of the gateway.
            audit: Notes all calls.
            lock: The approved definitions of tools; None allows all.
        """
        super().__init__(name, factory, revision)
        self.settings, self.lock = settings, lock
        self.counts = UpstreamCounts()
        self.failure: str | None = None
        """Why the server could not be reached when it was used last; None if it could."""
        self._audit = audit
        self._own_connections = Connections(name, factory)
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._accepted: frozenset[str] = frozenset()
        self._listed_at = float("-inf")
        self._cache: dict[tuple[str, str | None], tuple[float, Any]] = {}

    def change(self, settings: UpstreamSettings, lock: ToolLock | None) -> None:
        """Use other rules for the same server, from the next request on."""
        self.settings, self.lock = settings, lock
        self._buckets.clear()
        self._cache.clear()
        self._listed_at = float("-inf")

    def _connections(self, ctx: ServerContext) -> Connections:
        return self._own_connections

    async def close(self) -> None:
        """Close all connections to the server."""
        await self._own_connections.close()

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[Connections]:
        """Close the connections at the end."""
        try:
            yield self._own_connections
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
        if self.lock is not None:
            tools = self.lock.accepted(self._name, tools)
        self._accepted, self._listed_at = frozenset(tool.name for tool in tools), time.monotonic()
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
        return await super().list_prompts(ctx) if self.settings.prompts else ()

    async def list_resources(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the resources of the server, if clients may use them."""
        return await super().list_resources(ctx) if self.settings.resources else ()

    async def list_resource_templates(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the resource templates of the server, if clients may use them."""
        return await super().list_resource_templates(ctx) if self.settings.resources else ()

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def call_tool(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool, if the rules of the gateway allow the call. Raises JSONRPCError."""
        return await self._noted("tool", params.name, ctx, self._call(ctx, params))

    async def get_prompt(self, ctx: ServerContext, params: Any) -> Any:
        """Return a prompt of the server. Raises JSONRPCError if clients may not use prompts."""
        refusal = None if self.settings.prompts else f"unknown prompt: {params.name!r}"
        return await self._noted("prompt", params.name, ctx, self._timed(ctx, refusal, super().get_prompt(ctx, params)))

    async def read_resource(self, ctx: ServerContext, params: Any) -> Any:
        """Return the contents of a resource. Raises JSONRPCError if clients may not use resources."""
        refusal = None if self.settings.resources else f"resource not found: {params.uri!r}"
        return await self._noted(
            "resource", params.uri, ctx, self._timed(ctx, refusal, super().read_resource(ctx, params))
        )

    async def _call(self, ctx: ServerContext, params: Any) -> Any:
        tool = self.settings.inside(params.name)
        if tool is None or (self.lock is not None and not await self._is_accepted(ctx, tool)):
            raise _RefusedError(f"unknown tool: {params.name!r}")
        change = self.settings.tools.get(tool)
        arguments: dict[str, Any] = params.arguments or {}
        if change is not None:
            if fixed := next((key for key in change.arguments if key in arguments), None):
                raise _RefusedError(f"{params.name!r} has no argument {fixed!r}: the gateway sets it")
            arguments = {**arguments, **change.arguments}
        changed = params.model_copy(update={"name": tool, "arguments": arguments})
        return await self._timed(ctx, None, super().call_tool(ctx, changed))

    async def _is_accepted(self, ctx: ServerContext, tool: str) -> bool:
        """Return True if the definition of a tool is the approved one; list the tools if that is not known."""
        if time.monotonic() - self._listed_at > _LISTED_SECONDS:
            await self.list_tools(ctx)
        return tool in self._accepted

    async def _timed(self, ctx: ServerContext, refusal: str | None, request: Any) -> Any:
        """Return the result of a request. Raises JSONRPCError after the time of the settings, without that to start."""
        if refusal is not None:
            request.close()
            raise _RefusedError(refusal)
        try:
            with self._noting_failure():
                await self._own_connections.of_session(ctx)
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
        began, outcome = time.monotonic(), "failed"
        self.counts.calls += 1
        try:
            if wait := self._wait(user):
                request.close()
                raise _RefusedError(f"too many requests to {self._name!r}", {"retryAfter": round(wait, 3)})
            result = await request
            outcome = "error" if getattr(result, "is_error", None) else "done"
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
