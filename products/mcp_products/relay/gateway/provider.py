"""The provider of a gateway: which of its servers has a name or a URI."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp_products.app.components.kinds import PROMPT, RESOURCE, TOOL, Kind
from mcp_products.app.components.named_things import (
    NamedThing,
    ThingKind,
    UnknownItemError,
    task_lists_of,
    things_named,
)
from mcp_products.app.components.uris import (
    add_prefix,
    is_https_url,
    strip_name_prefix,
    strip_prefix,
    with_prefixed_name,
)
from mcp_products.app.providers.provider import CallNext, Provider
from mcp_runtime.errors import JSONRPCError, MCPError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.uris import uri_key_with_fragment
from mcp_runtime.server.context import ServerContext
from mcp_runtime.usage.texts import error_text, quoted

from ..proxy.connections import is_sessionless
from ..proxy.provider import inside_of
from .upstream import GatedUpstream

_log: Final = logging.getLogger("mcp_runtime.gateway")


class GatewayProvider(Provider):
    """The tools, resources and prompts of several servers, with a prefix for each. The servers may be replaced while
    clients are connected."""

    def __init__(self, opened: Callable[[], None], has_own: Callable[[str], bool]) -> None:
        """Create a provider without servers.

        Args:
            opened: Called when it is served.
            has_own: Returns True for the URI of a resource that the app of the gateway has itself.
        """
        self.upstreams: dict[str, GatedUpstream] = {}
        self._retiring: dict[GatedUpstream, asyncio.Task[None]] = {}
        self._opened = opened
        self._has_own = has_own

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[None]:
        """Open connections when clients need them, and close all at the end."""
        self._opened()
        try:
            yield None
        finally:
            ends = (upstream.close() for upstream in (*self.upstreams.values(), *self._retiring))
            await asyncio.gather(*ends, *self._retiring.values())

    def retire(self, upstream: GatedUpstream, successor: GatedUpstream | None) -> None:
        """Let a server go, for another one of its name if the settings have one: requests that run end first, and take
        what time they need."""
        task = self._retiring[upstream] = asyncio.ensure_future(upstream.retire(successor))
        task.add_done_callback(lambda _: self._retiring.pop(upstream))

    def _by_prefix(self) -> list[GatedUpstream]:
        """Return the servers, that without a prefix last: a name with the prefix of another is never one of its."""
        return sorted(self.upstreams.values(), key=lambda upstream: upstream.settings.prefix == "")

    # ---- lists -------------------------------------------------------------------------------------------------------

    async def _listed(self, kind: str, ctx: ServerContext) -> list[tuple[GatedUpstream, Any]]:
        """Return the definitions of all servers; one that fails is left out, and logged."""

        async def of(upstream: GatedUpstream) -> list[tuple[GatedUpstream, Any]]:
            try:
                return [(upstream, item) for item in await getattr(upstream, f"list_{kind}")(ctx)]
            except MCPError as error:
                _log.warning("the %s of %r are left out: %s", kind, upstream, error_text(error))
                return []

        return [item for listed in await asyncio.gather(*map(of, self._by_prefix())) for item in listed]

    async def _named(self, kind: str, ctx: ServerContext) -> list[Any]:
        """Return definitions with prefixed names; a second one of a name is left out, and logged."""
        shown: dict[str, Any] = {}
        for upstream, item in await self._listed(kind, ctx):
            outside = with_prefixed_name(upstream.settings.prefix, item)
            if self._owner_of(outside.name)[0] is not upstream or outside.name in shown:
                _log.error("alarm: %r has %s, a name of another server: left out", upstream, quoted(outside.name))
                continue
            shown[outside.name] = outside
        return list(shown.values())

    async def list_tools(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the tools of all servers."""
        return await self._named("tools", ctx)

    async def list_prompts(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the prompts of all servers."""
        return await self._named("prompts", ctx)

    async def _located(self, kind: str, field: str, ctx: ServerContext) -> list[Any]:
        """Return definitions with prefixed URIs; one with a URI of another server is left out, and logged."""
        owners: dict[str, GatedUpstream] = {}
        shown: list[Any] = []
        for upstream, item in await self._listed(kind, ctx):
            outside = add_prefix(upstream.settings.prefix, getattr(item, field))
            key = uri_key_with_fragment(outside)
            owner = next((owner for owner, _ in self._owners_of_uri(outside)), upstream)
            if owner.settings.prefix and not is_https_url(outside):
                owners[key] = owner  # The prefix says whose it is.
            if owners.setdefault(key, upstream) is not upstream:
                _log.error("alarm: %r has %s, a URI of %r: left out", upstream, quoted(outside), owners[key])
                continue
            shown.append(item.model_copy(update={field: outside}))
        return shown

    async def list_resources(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the resources of all servers."""
        return await self._located("resources", "uri", ctx)

    async def list_resource_templates(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the resource templates of all servers."""
        return await self._located("resource_templates", "uri_template", ctx)

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _owner_of(self, name: str) -> tuple[GatedUpstream | None, str]:
        """Return the server that has a name, and the name without its prefix."""
        for upstream in self._by_prefix():
            inside = strip_name_prefix(upstream.settings.prefix, name)
            if inside is not None:
                return upstream, inside
        return None, name

    async def _place_of(self, ctx: ServerContext, thing: NamedThing) -> tuple[GatedUpstream, str] | None:
        """Return the server that has what a message names, and its name or URI there; None if no server has it.

        This says which server is asked, and nothing of what a client may use: that does `GatedUpstream.may_use`.
        """
        if thing.kind == "tool" or thing.kind == "prompt":
            upstream, inside = self._owner_of(thing.id)
            return None if upstream is None else (upstream, inside)
        owners = list(self._owners_of_uri(thing.id))
        if len(owners) < 2:
            return owners[0] if owners else None
        asked = [asyncio.ensure_future(_has(upstream, ctx, thing.kind, inside)) for upstream, inside in owners]
        try:
            for owner, has in zip(owners, asked, strict=True):
                if await has:  # Those after it may never answer.
                    return owner
            return None
        finally:
            for has in asked:
                has.cancel()
            await asyncio.wait(asked)

    def _owners_of_uri(self, uri: str) -> Iterator[tuple[GatedUpstream, str]]:
        """Yield the server whose prefix a URI has; without one, all that may have it: https URLs have no prefix."""
        for upstream in self._by_prefix():
            prefix = upstream.settings.prefix
            inside = strip_prefix(prefix, uri)
            if inside is None:
                continue
            if prefix and not is_https_url(uri):
                yield upstream, inside
                return
            if upstream.settings.resources:
                yield upstream, inside

    async def call_tool(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool."""
        return await self._use(TOOL, ctx, params)

    async def get_prompt(self, ctx: ServerContext, params: Any) -> Any:
        """Return a prompt."""
        return await self._use(PROMPT, ctx, params)

    async def read_resource(self, ctx: ServerContext, params: Any) -> Any:
        """Return the contents of a resource. Several servers may have an https URL: the first one returns it."""
        return await self._use(RESOURCE, ctx, params)

    async def _use(self, kind: Kind, ctx: ServerContext, params: Any) -> Any:
        id: str = getattr(params, kind.key)
        place = await self._place_of(ctx, NamedThing(kind.name, id))
        if place is None:
            raise UnknownItemError(kind.list, id)
        upstream, inside = place
        result = await upstream.use(kind.name, ctx, params.model_copy(update={kind.key: inside}), id)
        return kind.result_outside(upstream.settings.prefix, result, inside, id)

    async def complete(self, ctx: ServerContext, params: Any) -> Any:
        """Return the suggestions of the server that has a prompt or a resource template."""
        (thing,) = things_named("complete", params)
        place = await self._place_of(ctx, thing)
        if place is None:
            return None
        upstream, inside = place
        ref = params.ref.model_copy(update={"name" if thing.kind == "prompt" else "uri": inside})
        return await upstream.use_completion(ctx, params.model_copy(update={"ref": ref}), thing.kind, inside)

    # ---- messages of the lifecycle -----------------------------------------------------------------------------------

    async def handle_lifecycle(
        self, name: str, ctx: ServerContext, params: Any, prefixes: tuple[str, ...], call_next: CallNext
    ) -> Any:
        """Subscribe to resources at the servers that have them, and pass the log level and changes of roots to all."""
        if is_sessionless(ctx.connection_state):
            return await call_next(ctx, params)
        if ctx.connection_state.is_shared:
            for upstream in self.upstreams.values():
                upstream.teller.add(ctx.connection_state)
        named = things_named(name, params, task_lists_of(ctx.revision))
        watched: list[str] = []
        keeps = False
        try:
            for thing in named:
                if thing.kind == "resource":
                    watched += await self._watch(ctx, thing.id, prefixes, is_alone=len(named) == 1)
            result = await call_next(ctx, params)
            keeps = name == "subscribe"  # A stream ends with its request, a subscription of a session later.
        finally:
            if not keeps:
                ends = (one.unwatch(ctx, uri) for uri in watched for one in self.upstreams.values())
                await asyncio.gather(*ends)  # A reload may have replaced the server.
        if name == "unsubscribe":
            await asyncio.gather(*(upstream.unwatch(ctx, params.uri) for upstream in self.upstreams.values()))
        else:
            await asyncio.gather(*(self._pass_on(upstream, name, ctx, params) for upstream in self.upstreams.values()))
        return result

    async def _watch(self, ctx: ServerContext, uri: str, prefixes: tuple[str, ...], *, is_alone: bool) -> list[str]:
        """Subscribe to a resource, and return its URI for clients; nothing for one that no server has.

        Raises JSONRPCError if the client may not use it. If it is one of several, a server that cannot be reached costs
        only its own.
        """
        inside = inside_of(prefixes, uri)
        place = None if inside is None else await self._place_of(ctx, NamedThing("resource", inside))
        if place is None:
            if inside is not None and self._is_closed(inside):
                raise UnknownItemError("resources", uri)
            return []
        upstream, own = place
        try:
            await upstream.watch(ctx, own, uri)
        except JSONRPCError as error:
            if is_alone or error.code != INTERNAL_ERROR:
                raise
            _log.warning("changes of %s are not sent: %s", quoted(uri), error)
            return []
        return [uri]

    def _is_closed(self, uri: str) -> bool:
        """Return True for a URI that nobody has but servers whose resources clients may not use."""
        closed = (item for item in self.upstreams.values() if not item.settings.resources)
        return not self._has_own(uri) and any(strip_prefix(item.settings.prefix, uri) is not None for item in closed)

    async def _pass_on(self, upstream: GatedUpstream, name: str, ctx: ServerContext, params: Any) -> None:
        try:
            await upstream.pass_on(name, ctx, params)
        except JSONRPCError as error:
            _log.warning("%r was not passed to %r: %s", name, upstream, error_text(error))


async def _has(upstream: GatedUpstream, ctx: ServerContext, kind: ThingKind, id: str) -> bool:
    """Return True if a server lists something; False as well if it cannot be asked."""
    try:
        return await upstream.lists(ctx, kind, id)
    except JSONRPCError as error:
        _log.warning("%r was not asked for %s: %s", upstream, quoted(id), error_text(error))
        return False
