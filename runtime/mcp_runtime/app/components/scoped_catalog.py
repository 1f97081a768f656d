"""The OAuth scopes that requests for the components of an app need."""

from __future__ import annotations

from typing import Any

from ...protocol.named_things import NamedThing, things_named
from .catalog import Catalog, NamedList
from .prefixes import strip_prefix


class ScopedCatalog(Catalog):
    """A catalog whose components need OAuth scopes."""

    def required_scopes(self, name: str, params: Any) -> tuple[str, ...]:
        """Return the OAuth scopes that a request needs; `name` is the name of the handler."""
        return tuple(scope for thing in things_named(name, params) for scope in self._scopes_of(thing, params))

    def _scopes_of(self, thing: NamedThing, params: Any) -> tuple[str, ...]:
        match thing.kind:
            case "tool":
                return self._scopes("tools", thing.id, params)
            case "prompt":
                return self._scopes("prompts", thing.id, params)
            case "resource" | "template":
                return self._scopes_at(thing.id, params)
            case "task":
                return ()  # A task has the scopes that its call needed.

    def _scopes(self, kind: NamedList, name: str, params: Any) -> tuple[str, ...]:
        if (self.versions or self.version_ranges) and (item := self.selected(kind, name, params)[1]) is not None:
            return tuple(item.scopes)
        own = self._registered(kind).get(name)
        if own is not None:
            return own.scopes
        return next((inner._scopes(kind, rest, params) for inner, rest in self._in_mounted(name, kind)), ())

    def _scopes_at(self, uri: str, params: Any) -> tuple[str, ...]:
        """Return the scopes of a resource, or of a resource template given by its URI template."""
        if (self.versions or self.version_ranges) and (item := self.selected("resources", uri, params)[1]) is not None:
            return tuple(item.scopes)
        match = self._resource(uri)
        resource = self._registered_as(uri) if match is None else match[0]
        if resource is not None:
            scopes: tuple[str, ...] = resource.scopes
            return scopes
        for prefix, inner in self.mounted:
            rest = strip_prefix(prefix, uri)
            if rest is not None and (inner.has_resource(rest) or inner._registered_as(rest) is not None):
                return inner._scopes_at(rest, params)
        return ()
