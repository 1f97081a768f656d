"""The provider of a gateway: which of its servers has a name or a URI."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from ..app.components.prefixes import (
    add_prefix,
    strip_name_prefix,
    strip_prefix,
    with_prefixed_name,
    with_prefixed_uri,
)
from ..app.providers.provider import Provider
from ..errors import JSONRPCError, MCPError
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.uris import find_uri, uri_key_with_fragment
from ..server.context import ServerContext
from .gated_upstream import GatedUpstream

_log: Final = logging.getLogger("mcp_runtime.gateway")


class GatewayProvider(Provider):
    """The tools, resources and prompts of several servers, with a prefix for each. The servers may be replaced while
    clients are connected."""

    def __init__(self, opened: Callable[[], None]) -> None:
        """Create a provider without servers; `opened` is called when it is served."""
        self.upstreams: dict[str, GatedUpstream] = {}
        self._opened = opened

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[None]:
        """Open connections when clients need them, and close all at the end."""
        self._opened()
        try:
            yield None
        finally:
            await asyncio.gather(*(upstream.close() for upstream in self.upstreams.values()))

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
                _log.warning("the %s of %r are left out: %s", kind, upstream, error)
                return []

        return [item for listed in await asyncio.gather(*map(of, self._by_prefix())) for item in listed]

    async def _named(self, kind: str, ctx: ServerContext) -> list[Any]:
        """Return definitions with prefixed names; a second one of a name is left out, and logged."""
        shown: dict[str, Any] = {}
        for upstream, item in await self._listed(kind, ctx):
            outside = with_prefixed_name(upstream.settings.prefix, item)
            if self._owner_of(outside.name)[0] is not upstream or outside.name in shown:
                _log.error("alarm: %r has %r, a name of another server: left out", upstream, outside.name)
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
        owners, shown = dict[str, GatedUpstream](), list[Any]()
        for upstream, item in await self._listed(kind, ctx):
            outside = add_prefix(upstream.settings.prefix, getattr(item, field))
            key = uri_key_with_fragment(outside)
            if owners.setdefault(key, upstream) is not upstream:
                _log.error("alarm: %r has %r, a URI of %r: left out", upstream, outside, owners[key])
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

    def _owners_of_uri(self, uri: str) -> Iterator[tuple[GatedUpstream, str]]:
        for upstream in self._by_prefix():
            inside = strip_prefix(upstream.settings.prefix, uri)
            if inside is not None:
                yield upstream, inside

    async def call_tool(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool."""
        upstream, name = self._owner_of(params.name)
        if upstream is None:
            return await super().call_tool(ctx, params)
        try:
            return await upstream.call_tool(ctx, params.model_copy(update={"name": name}))
        except JSONRPCError as error:
            if error.message == f"unknown tool: {name!r}":
                raise JSONRPCError(INVALID_PARAMS, f"unknown tool: {params.name!r}") from None
            raise

    async def get_prompt(self, ctx: ServerContext, params: Any) -> Any:
        """Return a prompt."""
        upstream, name = self._owner_of(params.name)
        if upstream is None:
            return await super().get_prompt(ctx, params)
        return await upstream.get_prompt(ctx, params.model_copy(update={"name": name}))

    async def read_resource(self, ctx: ServerContext, params: Any) -> Any:
        """Return the contents of a resource. Several servers may have an https URL: the first one returns it."""
        owners = list(self._owners_of_uri(params.uri))
        for upstream, uri in owners:
            if len(owners) > 1:
                listed = [item.uri for item in await upstream.list_resources(ctx)]
                if find_uri(uri, listed) is None:
                    continue
            result = await upstream.read_resource(ctx, params.model_copy(update={"uri": uri}))
            return with_prefixed_uri(result, uri, params.uri)
        return await super().read_resource(ctx, params)

    async def complete(self, ctx: ServerContext, params: Any) -> Any:
        """Return the suggestions of the server that has a prompt or a resource template."""
        uri: str | None = getattr(params.ref, "uri", None)
        upstream, inside = (
            self._owner_of(params.ref.name) if uri is None else next(self._owners_of_uri(uri), (None, uri))
        )
        if upstream is None:
            return None
        ref = params.ref.model_copy(update={"name" if uri is None else "uri": inside})
        return await upstream.complete(ctx, params.model_copy(update={"ref": ref}))

    async def handle_lifecycle(
        self,
        name: str,
        ctx: ServerContext,
        params: Any,
        prefixes: tuple[str, ...],
        call_next: Callable[[ServerContext, Any], Awaitable[Any]],
    ) -> Any:
        """Pass the log level, subscriptions and changes of roots to the servers."""
        for upstream in self.upstreams.values():
            call_next = partial(_through, upstream, name, (*prefixes, upstream.settings.prefix), call_next)
        return await call_next(ctx, params)


async def _through(
    upstream: GatedUpstream,
    name: str,
    prefixes: tuple[str, ...],
    call_next: Callable[[ServerContext, Any], Awaitable[Any]],
    ctx: ServerContext,
    params: Any,
) -> Any:
    return await upstream.handle_lifecycle(name, ctx, params, prefixes, call_next)
