"""The provider of a proxy: forwards the requests of clients to the target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ...endpoint.list_limits import ListedPages, ListLimits
from ...endpoint.subscription_filter import filter_of
from ...errors import JSONRPCError, RemoteError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.models import is_list
from ...protocol.revision import META, Request, Revision
from ...server.context import ServerContext
from ..components.prefixes import strip_prefix
from ..providers.provider import Provider
from .connections import Connections, is_sessionless
from .forwarded_calls import ForwardedCall
from .target_connection import Upstream
from .targets import ClientFactory


class ProxyProvider(Provider):
    """The tools, resources and prompts of another server."""

    forwards = True
    limits = ListLimits()
    """Those of each list of the target that is read as a whole."""

    def __init__(self, name: str, factory: ClientFactory, revision: Revision) -> None:
        """Create the provider of a target.

        Args:
            name: The name of the proxy, for messages.
            factory: Makes the clients that connect to the target.
            revision: The protocol version of the app.
        """
        self._name = name
        self._factory = factory
        self._revision = revision
        self._rows = {row.name: row for row in revision.rows if isinstance(row, Request)}

    def __repr__(self) -> str:
        return f"<proxy {self._name!r}>"

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[Connections]:
        """Open connections when clients need them, and close all at the end."""
        connections = Connections(self._name, self._factory)
        try:
            yield connections
        finally:
            await connections.close()

    def _connections(self, ctx: ServerContext) -> Connections:
        connections: Connections = ctx.connection_state.state[self]
        return connections

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def forward(self, name: str, ctx: ServerContext, params: Any) -> Any:
        """Return the target's result of a request. Raises JSONRPCError with the code and the data of its error."""
        row, connections = self._rows[name], self._connections(ctx)
        shared = await connections.of_session(ctx)
        separate = ctx.connection_state.session_id is None and self._needs_connection(row, shared, ctx)

        async def send(call: ForwardedCall) -> Any:
            if not separate:
                return await shared.forward(row, params, call)
            async with connections.of_request(ctx) as upstream:
                return await upstream.forward(row, params, call)

        has_rounds = row.input_required is not None and ctx._mrtr is not None  # pyright: ignore[reportPrivateUsage]
        if not has_rounds or shared.is_stateless:
            return await send(ForwardedCall(ctx))
        key = f"{name} {getattr(params, 'name', None) or params.uri}"
        return await connections.suspended.run(key, ctx, send)

    def _needs_connection(self, row: Request[Any], shared: Upstream, ctx: ServerContext) -> bool:
        """Return True if a request without a session must not share the connection with those of other clients: the
        target could send a request, or a log message, that nobody can match to it."""
        if self._factory.connected is not None or row.input_required is None:
            return False
        return not shared.is_stateless or f"{META}logLevel" in ctx.meta

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

    async def pages(self, ctx: ServerContext, kind: str) -> AsyncGenerator[Any]:
        """Yield the pages of a list of the target.

        Raises JSONRPCError for a list that has not ended after the time of `limits`, or that is longer.
        """
        row = self._rows[f"list_{kind}"]
        listed = ListedPages(row.method, self.limits)
        meta = {"_meta": self._required_meta(ctx)}
        ends = asyncio.get_running_loop().time() + self.limits.seconds
        cursor: str | None = None
        try:
            while True:
                params = row.params.model_validate(meta if cursor is None else {**meta, "cursor": cursor})
                async with asyncio.timeout_at(ends):
                    page = await self.forward(row.name, ctx, params)
                cursor = listed.add_page(page, len(getattr(page, kind)))
                yield page
                if cursor is None:
                    return
        except TimeoutError:
            seconds = f"{self.limits.seconds:g} s"
            raise JSONRPCError(INTERNAL_ERROR, f"{self._name!r} has not listed its {kind} within {seconds}") from None
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

    async def handle_lifecycle(
        self,
        name: str,
        ctx: ServerContext,
        params: Any,
        prefixes: tuple[str, ...],
        call_next: Callable[[ServerContext, Any], Awaitable[Any]],
    ) -> Any:
        """Pass the log level, subscriptions and changes of roots to the target, unless the client has no session."""
        if is_sessionless(ctx.connection_state):
            return await call_next(ctx, params)
        connections = self._connections(ctx)
        if name == "subscriptions_listen":
            return await self._listen(ctx, params, prefixes, call_next)
        if name == "subscribe" and (uri := inside_of(prefixes, params.uri)) is not None:
            await (await connections.of_session(ctx)).subscribe(uri, params.uri)
        result = await call_next(ctx, params)
        if name == "unsubscribe" and (upstream := connections.existing(ctx.connection_state)) is not None:
            await upstream.unsubscribe(params.uri)
        await self.pass_on(name, ctx, params)
        return result

    async def pass_on(self, name: str, ctx: ServerContext, params: Any) -> None:
        """Pass a log level or a change of roots to the target, if a connection is open."""
        upstream = self._connections(ctx).existing(ctx.connection_state)
        if upstream is not None and name == "set_level":
            await upstream.set_level(params.level)
        elif upstream is not None and name == "on_roots_list_changed":
            await upstream.roots_changed()

    async def _listen(
        self,
        ctx: ServerContext,
        params: Any,
        prefixes: tuple[str, ...],
        call_next: Callable[[ServerContext, Any], Awaitable[Any]],
    ) -> Any:
        """Subscribe to the resources of a client's stream while the stream is open."""
        upstream = await self._connections(ctx).of_session(ctx)
        outside = [uri for uris in filter_of(params).values() if is_list(uris) for uri in uris]
        subscribed: list[str] = []
        try:
            for uri in outside:
                inside = inside_of(prefixes, uri)
                if inside is not None:
                    await upstream.subscribe(inside, uri)
                    subscribed.append(uri)
            return await call_next(ctx, params)
        finally:
            for uri in subscribed:
                await upstream.unsubscribe(uri)


def inside_of(prefixes: tuple[str, ...], uri: str) -> str | None:
    """Return a URI without the prefixes of apps; None if it belongs to another app."""
    inside: str | None = uri
    for prefix in prefixes:
        inside = None if inside is None else strip_prefix(prefix, inside)
    return inside
