"""The OAuth scopes that requests for the components of an app need."""

from __future__ import annotations

from typing import Any

from ...endpoint.subscription_filter import filter_of
from ...protocol.models import is_list
from ...server.subscriptions import check_filter
from .catalog import Catalog, NamedList
from .prefixes import strip_prefix


class ScopedCatalog(Catalog):
    """A catalog whose components need OAuth scopes."""

    def required_scopes(self, name: str, params: Any) -> tuple[str, ...]:
        """Return the OAuth scopes that a request needs; `name` is the name of the handler."""
        match name:
            case "call_tool":
                return self._scopes("tools", params.name, params)
            case "get_prompt":
                return self._scopes("prompts", params.name, params)
            case "read_resource" | "subscribe":
                return self._scopes_at(params.uri, params)
            case "complete":
                uri: str | None = getattr(params.ref, "uri", None)
                return self._scopes("prompts", params.ref.name, params) if uri is None else self._scopes_at(uri, params)
            case "subscriptions_listen":
                check_filter(filter_of(params))  # Before anything is looked up.
                watched = (uri for uris in filter_of(params).values() if is_list(uris) for uri in uris)
                return tuple(scope for uri in watched for scope in self._scopes_at(uri, params))
            case _:
                return ()

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
