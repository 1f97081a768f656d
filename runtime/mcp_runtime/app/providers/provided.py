"""What the providers of an app and of mounted apps have: their lists, and who serves a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from ...errors import LocalError, MCPError
from ...server.context import ServerContext
from ...server.visibility import ComponentKind
from ..components.prefixes import add_prefix, strip_name_prefix, strip_prefix, with_prefixed_uri
from ..components.scoped_catalog import ScopedCatalog
from ..components.uri_templates import URITemplate
from .provider import ProvidedList, Provider

_log: Final = logging.getLogger(__name__)

CallNext = Callable[[ServerContext, Any], Awaitable[Any]]
_KINDS: Final[Mapping[ProvidedList, ComponentKind]] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "resource_templates": "template",
}
_LIST_OF_HANDLER: Final[Mapping[str, ProvidedList]] = {
    "call_tool": "tools",
    "get_prompt": "prompts",
    "read_resource": "resources",
}


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
        is_only = not (self.visibility or self._rules(ctx)) and not self.has_own_items()
        return self.providers[0] if is_only else None

    def has_own_items(self) -> bool:
        """Return True if this app has tools, resources or prompts besides those of providers and mounted apps."""
        raise NotImplementedError

    # ---- lists ------------------------------------------------------------------------------------------------------

    async def provided(self, kind: ProvidedList, ctx: ServerContext, own: list[Any]) -> list[Any]:
        """Return the definitions of a list: those of the app itself, then those of providers.

        A provider that fails is left out, and logged.
        """
        key = _key_of(kind)
        seen = {getattr(item, key) for item in own}
        items = list(own)
        for item in await self._all_provided(kind, ctx):
            if (id := getattr(item, key)) not in seen:
                seen.add(id)
                if self._shows(self._rules(ctx), _KINDS[kind], (item.name, id), frozenset()):
                    items.append(item)
        return items

    async def _all_provided(self, kind: ProvidedList, ctx: ServerContext) -> list[Any]:
        lists = [self._provided_by(provider, kind, ctx) for provider in self.providers]
        lists += [inner._provided_inside(prefix, kind, ctx) for prefix, inner in self.mounted if inner.has_providers]
        return [item for items in await asyncio.gather(*lists) for item in items]

    async def _provided_by(self, provider: Provider, kind: ProvidedList, ctx: ServerContext) -> list[Any]:
        try:
            return [*await getattr(provider, f"list_{kind}")(ctx)]
        except MCPError as error:
            _log.warning("the %s of %r are left out: %s", kind, provider, error)
            return []

    async def _provided_inside(self, prefix: str, kind: ProvidedList, ctx: ServerContext) -> list[Any]:
        """Return what the providers of this app have, with the prefix that the app has outside."""
        key = _key_of(kind)
        items = [
            item
            for item in await self._all_provided(kind, ctx)
            if self._shows((), _KINDS[kind], (item.name, getattr(item, key)), frozenset())
        ]
        return [item.model_copy(update={key: _outside(key, prefix, getattr(item, key))}) for item in items]

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def serve_provided(self, name: str, ctx: ServerContext, params: Any, states: Any) -> Any:
        """Return the result of a request for something that the app itself does not have; None if nobody has it.

        Args:
            name: The name of the handler, such as "call_tool".
            ctx: The context of the request.
            params: Its params.
            states: The states of lifespans.
        """
        kind = _LIST_OF_HANDLER[name]
        key = _key_of(kind)
        id: str = getattr(params, key)
        if not self._shows(self._rules(ctx), _KINDS[kind], (id,), frozenset()):
            return None
        candidates = [*self._candidates(key, id)]
        for source, inside in candidates:
            if len(candidates) > 1 and not await self._has(source, kind, inside, ctx):
                continue
            if isinstance(source, Provider):
                return await getattr(source, name)(ctx, params)
            ctx._is_mounted = True  # pyright: ignore[reportPrivateUsage]
            result = await source.handle(name, ctx, params.model_copy(update={key: inside}), states)
            return with_prefixed_uri(result, inside, id) if key == "uri" else result
        return None

    async def complete_provided(self, ctx: ServerContext, params: Any, states: Any) -> Any:
        """Return the completion of a prompt or a resource template of a provider; None if nobody has it."""
        uri: str | None = getattr(params.ref, "uri", None)
        key, kind = ("name", "prompts") if uri is None else ("uri", "resource_templates")
        candidates = [*self._candidates(key, params.ref.name if uri is None else uri)]
        for source, inside in candidates:
            if len(candidates) > 1 and not await self._has(source, kind, inside, ctx):  # type: ignore[arg-type]
                continue
            if isinstance(source, Provider):
                return await source.complete(ctx, params)
            ref = params.ref.model_copy(update={key: inside})
            return await source.handle("complete", ctx, params.model_copy(update={"ref": ref}), states)
        return None

    def _candidates(self, key: str, id: str) -> Iterator[tuple[Provider | ProvidedItems, str]]:
        """Yield the providers, and the mounted apps with providers, that may have a name or a URI, with its form."""
        yield from ((provider, id) for provider in self.providers)
        for prefix, inner in self.mounted:
            inside = _inside(key, prefix, id)
            if inside is not None and inner.has_providers:
                yield inner, inside

    async def _has(self, source: Provider | ProvidedItems, kind: ProvidedList, id: str, ctx: ServerContext) -> bool:
        """Return True if a provider lists this name or URI, or a resource template that matches it."""
        if isinstance(source, Provider):
            definitions = await self._provided_by(source, kind, ctx)
        else:
            definitions = await source._all_provided(kind, ctx)
        if id in {getattr(definition, _key_of(kind)) for definition in definitions}:
            return True
        if kind != "resources":
            return False
        if isinstance(source, Provider):
            templates = await self._provided_by(source, "resource_templates", ctx)
        else:
            templates = await source._all_provided("resource_templates", ctx)
        return any(_matches(template.uri_template, id) for template in templates)

    # ---- messages of the lifecycle ----------------------------------------------------------------------------------

    def through_providers(self, name: str, handler: CallNext) -> CallNext:
        """Return the handler of a message of the lifecycle, with the providers around it."""
        for provider, prefixes in self.providers_with_prefixes():
            handler = partial(_call_provider, provider, prefixes, name, handler)
        return handler


async def _call_provider(
    provider: Provider, prefixes: tuple[str, ...], name: str, call_next: CallNext, ctx: ServerContext, params: Any
) -> Any:
    return await provider.handle_lifecycle(name, ctx, params, prefixes, call_next)


def _key_of(kind: ProvidedList) -> str:
    return {"resources": "uri", "resource_templates": "uri_template"}.get(kind, "name")


def _outside(key: str, prefix: str, id: str) -> str:
    return add_prefix(prefix, id) if key != "name" else f"{prefix}_{id}" if prefix else id


def _inside(key: str, prefix: str, id: str) -> str | None:
    return strip_name_prefix(prefix, id) if key == "name" else strip_prefix(prefix, id)


def _matches(uri_template: str, uri: str) -> bool:
    try:
        return URITemplate(uri_template).match(uri) is not None
    except LocalError:  # A template with expressions that are not supported here.
        return False
