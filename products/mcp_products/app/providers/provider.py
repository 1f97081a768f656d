"""The base class of providers: objects that list and serve tools, resources and prompts at each request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from mcp_runtime.errors import MCPError
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.uris import find_uri, uri_key
from mcp_runtime.server.context import ServerContext
from mcp_runtime.usage.texts import error_text

from ..components.catalog import (
    NAMESPACE,
    ScopedCatalog,
    VersionRange,
    is_requested,
    requested_version,
    version_key,
    with_requested_version,
    with_versions,
)
from ..components.kinds import PROMPT, RESOURCE, TEMPLATE, Kind
from ..components.named_things import UnknownItemError
from ..components.uris import may_serve
from ..components.visibility import VisibilityRule, is_enabled

CallNext = Callable[[ServerContext, Any], Awaitable[Any]]
_log: Final = logging.getLogger("mcp_runtime.app.providers.provider")


class Provider:
    """A source of tools, resources and prompts: override the methods for what it has, and pass it to
    `App.add_provider`.

    The methods that list return definitions, such as `types.Tool` of the newest protocol version. The other methods are
    called with the params of the request, whose name or URI has no prefix of the app.
    """

    forwards = False
    """Whether the methods of `forward` serve whole requests, list requests with their cursors included."""

    def attach(self, app: Any, prefix: str) -> None:
        """Add this provider to an app; with a prefix, to an app that is mounted in it."""
        if prefix:
            inner = type(app)(f"{app.name} {prefix}")
            app.mount(inner, prefix)
            app = inner
        app.registry.providers.append(self)

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[Any]:
        """Open what the provider needs while `app` is served, and close it at the end."""
        yield None

    async def list_tools(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all tools."""
        return ()

    async def list_prompts(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all prompts."""
        return ()

    async def list_resources(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all resources."""
        return ()

    async def list_resource_templates(self, ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of all resource templates."""
        return ()

    async def call_tool(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool call: a `CallToolResult`."""
        raise UnknownItemError("tools", params.name)

    async def get_prompt(self, ctx: ServerContext, params: Any) -> Any:
        """Return a `GetPromptResult`."""
        raise UnknownItemError("prompts", params.name)

    async def read_resource(self, ctx: ServerContext, params: Any) -> Any:
        """Return a `ReadResourceResult`."""
        raise UnknownItemError("resources", params.uri)

    async def complete(self, ctx: ServerContext, params: Any) -> Any:
        """Return a `CompleteResult`; None if the provider has no suggestions."""
        return None

    async def forward(self, name: str, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a whole request, if `forwards` is set; `name` is the name of its handler."""
        raise NotImplementedError

    async def handle_lifecycle(
        self, name: str, ctx: ServerContext, params: Any, prefixes: tuple[str, ...], call_next: CallNext
    ) -> Any:
        """Return the result of `call_next`, which handles a message of the lifecycle or a notification of the client.

        Args:
            name: The name of the handler.
            ctx: The context of the message, in the protocol version of the client.
            params: Its params, in that version.
            prefixes: The prefixes that the apps between the client and this provider add, the outermost first.
            call_next: Handles the message.
        """
        return await call_next(ctx, params)

    def provides(self, kind: str) -> bool:
        """Return True if the class overrides a method for a kind: "tools", "resources", "prompts" or "completions"."""
        names = {"resources": ("list_resources", "list_resource_templates"), "completions": ("complete",)}
        return any(
            getattr(type(self), name) is not getattr(Provider, name) for name in names.get(kind, (f"list_{kind}",))
        )


# The versions and the tags of what providers list: FastMCP's servers name them in `_meta`.


def listed_tags(definition: Any) -> frozenset[str]:
    """Return the tags of a definition."""
    return frozenset(_texts(definition, "tags"))


def in_ranges(definitions: Iterable[Any], ranges: Sequence[VersionRange]) -> list[Any]:
    """Return the definitions whose version is in all ranges, without the other versions in their `_meta`.

    A definition describes one version: if that is out of range, the definition is left out, whatever other versions it
    names.
    """
    accepted: list[Any] = []
    for definition in definitions:
        if not _is_accepted(requested_version(definition), ranges):
            continue
        versions = _texts(definition, "versions")
        rest = [version for version in versions if _is_accepted(version, ranges)]
        accepted.append(definition if rest == versions else with_versions(definition, rest))
    return accepted


def highest_versions(definitions: Sequence[Any], key: str) -> list[Any]:
    """Return one definition for each name or URI: the highest version, with all versions in its `_meta`.

    Without versions it is the first one.
    """
    by_id: dict[str, list[Any]] = {}
    for definition in definitions:
        by_id.setdefault(getattr(definition, key), []).append(definition)
    return [same[0] if len(same) == 1 else _highest(same) for same in by_id.values()]


def in_listed_version(kind: Kind, name: str, params: Any, definitions: Sequence[Any]) -> Any:
    """Return params that name the version that a request gets: the one it names, else the highest.

    Args:
        kind: The kind of what the request is for.
        name: Its name, or its URI.
        params: The params of the request.
        definitions: The definitions of what it is for. Without versions, the params remain as they are.

    Raises UnknownItemError for a version that is not listed.
    """
    versions = _listed(definitions)
    if not versions:
        return params
    requested = requested_version(params)
    for version in versions:
        if is_requested(version, requested):
            return with_requested_version(params, version)
    raise UnknownItemError(kind.items, name, f" in the version {requested!r}")


def _highest(definitions: Sequence[Any]) -> Any:
    versioned = [item for item in definitions if requested_version(item) is not None]
    if not versioned:
        return definitions[0]
    highest = max(versioned, key=lambda item: version_key(requested_version(item) or ""))
    return with_versions(highest, _listed(versioned))


def _listed(definitions: Iterable[Any]) -> list[str]:
    """Return the versions of definitions of one name, the highest first."""
    versions: dict[Any, str] = {}
    for definition in definitions:
        own = requested_version(definition)
        for version in [*([] if own is None else [own]), *_texts(definition, "versions")]:
            versions.setdefault(version_key(version), version)
    return [versions[key] for key in sorted(versions, reverse=True)]


def _is_accepted(version: str | None, ranges: Sequence[VersionRange]) -> bool:
    return all(allowed.accepts(version) for allowed in ranges)


def _texts(definition: Any, field: str) -> list[str]:
    """Return a list of texts in FastMCP's part of `_meta`."""
    meta: Any = definition.meta or {}
    namespace: Any = meta.get(NAMESPACE)
    values: Any = namespace.get(field) if is_object(namespace) else None
    return [value for value in values if isinstance(value, str)] if is_list(values) else []


# What the providers of an app and of mounted apps have: their lists, and who serves a request.


class ProvidedItems(ScopedCatalog):
    """The part of a registry that has providers, whose tools, resources and prompts come after those of the app."""

    def __init__(self) -> None:
        super().__init__()
        self.providers: list[Provider] = []
        self.transforms: list[Any] = []
        self.is_mounted = False

    def handle(self, name: str, ctx: ServerContext, params: Any, states: Any) -> Awaitable[Any]:
        """Return the awaitable result of a request, through the middleware."""
        raise NotImplementedError

    def has_any(self, kind: str) -> bool:
        """Return True if this app, without mounted apps, has anything of a kind."""
        raise NotImplementedError

    @property
    def has_providers(self) -> bool:
        """True if this app or a mounted one has providers."""
        return bool(self.providers) or any(inner.has_providers for _, inner in self.mounted)

    def providers_with_prefixes(self, prefixes: tuple[str, ...] = ()) -> Iterator[tuple[Provider, tuple[str, ...]]]:
        """Yield the providers of this app and of mounted apps, with the prefixes that they have here."""
        yield from ((provider, prefixes) for provider in self.providers)
        for prefix, inner in self.mounted:
            yield from inner.providers_with_prefixes((*prefixes, prefix))

    def sole_forwarder(self, ctx: ServerContext) -> Provider | None:
        """Return the provider that serves whole requests of the client, if the app has nothing else."""
        if len(self.providers) != 1 or not self.providers[0].forwards or self.mounted:
            return None
        is_only = not (self.visibility or self.version_ranges or self.rules_of(ctx)) and not self.has_own_items()
        return self.providers[0] if is_only else None

    def has_own_items(self) -> bool:
        """Return True if this app has tools, resources or prompts besides those of providers and mounted apps."""
        raise NotImplementedError

    # ---- lists ------------------------------------------------------------------------------------------------------

    async def provided(self, kind: Kind, ctx: ServerContext, own: list[Any]) -> list[Any]:
        """Return the definitions of a list: those of the app itself, then those of providers.

        A provider that fails is left out, and logged.
        """
        own_ids = {_id_of(kind, item) for item in own}
        provided = [item for item in await self._all_provided(kind, ctx) if _id_of(kind, item) not in own_ids]
        return [*own, *highest_versions(self._enabled_among(provided, kind, self.rules_of(ctx)), kind.key)]

    async def _all_provided(self, kind: Kind, ctx: ServerContext) -> list[Any]:
        """Return what providers have, in all versions; if several have a name, what the first one has."""
        lists = [self._provided_by(provider, kind, ctx) for provider in self.providers]
        lists += [inner._provided_inside(prefix, kind, ctx) for prefix, inner in self.mounted if inner.has_providers]
        sources: dict[str, int] = {}
        items: list[Any] = []
        for source, listed in enumerate(await asyncio.gather(*lists)):
            items += [item for item in listed if sources.setdefault(_id_of(kind, item), source) == source]
        return in_ranges(items, self.version_ranges) if self.version_ranges else items

    async def _provided_by(self, provider: Provider, kind: Kind, ctx: ServerContext) -> list[Any]:
        try:
            return [*await getattr(provider, f"list_{kind.items}")(ctx)]
        except MCPError as error:
            _log.warning("the %s of %r are left out: %s", kind.items, provider, error_text(error))
            return []

    async def _provided_inside(self, prefix: str, kind: Kind, ctx: ServerContext) -> list[Any]:
        """Return what the providers of this app have, with the prefix that the app has outside."""
        enabled = self._enabled_among(await self._all_provided(kind, ctx), kind, ())
        return [kind.outside(prefix, item) for item in enabled]

    def _enabled_among(self, items: Iterable[Any], kind: Kind, session: Sequence[VisibilityRule]) -> list[Any]:
        return [
            item
            for item in items
            if self._enables(session, kind, (item.name, getattr(item, kind.key)), listed_tags(item))
        ]

    def _enables(
        self, session: Sequence[VisibilityRule], kind: Kind, names: Sequence[str], tags: Iterable[str]
    ) -> bool:
        """Return True unless a rule of the session, or else of this app, disables what has these names and tags."""
        return is_enabled(session, kind.name, names, tags, is_enabled(self.visibility, kind.name, names, tags))

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def serve_provided(self, kind: Kind, ctx: ServerContext, params: Any, states: Any) -> Any:
        """Return the result of a request for something that the app itself does not have; None if nobody has it.

        Args:
            kind: The kind of what the request is for.
            ctx: The context of the request.
            params: Its params.
            states: The states of lifespans.
        """
        id: str = getattr(params, kind.key)
        if self.visibility or self.version_ranges or self.rules_of(ctx):
            params = await self._allowed(kind, id, ctx, params)
            if params is None:
                return None
        candidates = [*self._sources(kind, id)]
        for source, inside, prefix in candidates:
            if len(candidates) > 1 and not (await self._definitions(source, kind, inside, ctx))[1]:
                continue
            if isinstance(source, Provider):
                return await self._serve_from(source, kind, ctx, params)
            ctx.is_mounted = True
            result = await source.handle(kind.handler, ctx, params.model_copy(update={kind.key: inside}), states)
            return kind.result_outside(prefix, result, inside, id)
        return None

    async def _allowed(self, kind: Kind, id: str, ctx: ServerContext, params: Any) -> Any:
        """Return params with a version in the ranges of this app; None for what the app disables, or does not list.

        Raises JSONRPCError (invalid params) for a version that is not listed.
        """
        listed, definitions = await self._definitions(self, kind, id, ctx)
        if not definitions:
            ids = (id,) if kind.is_named else (id, uri_key(id))
            return params if not self.version_ranges and self._enables(self.rules_of(ctx), kind, ids, ()) else None
        first = definitions[0]
        names = (first.name, id, getattr(first, listed.key))
        if not self._enables(self.rules_of(ctx), listed, names, listed_tags(first)):
            return None
        return in_listed_version(kind, id, params, definitions) if self.version_ranges else params

    async def _serve_from(self, provider: Provider, kind: Kind, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a provider. Raises JSONRPCError for a version that it does not list."""
        if not provider.forwards and requested_version(params) is not None:
            id: str = getattr(params, kind.key)
            params = in_listed_version(kind, id, params, (await self._definitions(provider, kind, id, ctx))[1])
        return await getattr(provider, kind.handler)(ctx, params)

    async def complete_provided(self, ctx: ServerContext, params: Any, states: Any) -> Any:
        """Return the completion of a prompt or a resource template of a provider; None if nobody has it."""
        uri: str | None = getattr(params.ref, "uri", None)
        kind = PROMPT if uri is None else TEMPLATE
        id: str = params.ref.name if uri is None else uri
        if self.visibility or self.version_ranges or self.rules_of(ctx):
            has_template = uri is None or (await self._definitions(self, kind, id, ctx))[1]
            if await self._allowed(kind if has_template else RESOURCE, id, ctx, params) is None:
                return None
        candidates = [*self._sources(kind, id)]
        for source, inside, _ in candidates:
            if len(candidates) > 1 and not (await self._definitions(source, kind, inside, ctx))[1]:
                continue
            if isinstance(source, Provider):
                return await source.complete(ctx, params)
            ref = params.ref.model_copy(update={"name" if uri is None else "uri": inside})
            return await source.handle("complete", ctx, params.model_copy(update={"ref": ref}), states)
        return None

    def _sources(self, kind: Kind, id: str) -> Iterator[tuple[Provider | ProvidedItems, str, str]]:
        """Yield the providers, and the mounted apps with providers, that may have a name or a URI, with its form and
        its prefix."""
        yield from ((provider, id, "") for provider in self.providers)
        for prefix, inner in self.mounted:
            inside = kind.inside(prefix, id)
            if inside is not None and inner.has_providers:
                yield inner, inside, prefix

    async def definitions_provided(self, kind: Kind, id: str, ctx: ServerContext) -> list[Any]:
        """Return what providers list under a name or a URI, in all versions."""
        return (await self._definitions(self, kind, id, ctx))[1]

    async def _definitions(
        self, source: Provider | ProvidedItems, kind: Kind, id: str, ctx: ServerContext
    ) -> tuple[Kind, list[Any]]:
        """Return what a provider, or the providers of an app, list for a name or a URI, in all versions, with its kind:
        a URI can be one of a resource template."""

        async def listed(kind: Kind) -> list[Any]:
            if isinstance(source, Provider):
                return await self._provided_by(source, kind, ctx)
            return await source._all_provided(kind, ctx)

        items = await listed(kind)
        own_id = id if kind.is_named else find_uri(id, [getattr(item, kind.key) for item in items])
        definitions = [item for item in items if getattr(item, kind.key) == own_id]
        if definitions or kind is not RESOURCE:
            return kind, definitions
        return TEMPLATE, [item for item in await listed(TEMPLATE) if may_serve(item.uri_template, id)]

    # ---- messages of the lifecycle ----------------------------------------------------------------------------------

    def through_providers(self, name: str, handler: CallNext) -> CallNext:
        """Return the handler of a message of the lifecycle, with the providers around it."""
        for provider, prefixes in self.providers_with_prefixes():
            handler = partial(provider.handle_lifecycle, name, prefixes=prefixes, call_next=handler)
        return handler


def _id_of(kind: Kind, definition: Any) -> str:
    """Return the name or the URI of a definition in the form that all of its spellings have."""
    return kind.comparable(getattr(definition, kind.key))
