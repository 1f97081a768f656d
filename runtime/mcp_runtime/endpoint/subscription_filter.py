"""Subscription filters: the changes that a client subscribes to.

MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/subscriptions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol.capabilities import is_declared, parse_capability_path
from ..protocol.models import is_list, is_model, is_object, plain_of
from ..protocol.revision import Notification
from ..protocol.uris import uri_key


class ChangeFilter:
    """The changes that one client subscribes to."""

    __slots__ = ("_filter", "_uris")

    def __init__(self, filter: Mapping[str, Any]) -> None:
        """Create a filter of what a request to listen has."""
        self._filter = filter
        listed = [item for value in filter.values() if is_list(value) for item in value]
        self._uris = frozenset([uri_key(item) for item in listed if isinstance(item, str)])

    def uris(self, rows: Iterable[Notification]) -> list[str]:
        """Return the URIs that the filter lists, without the ids of items that notifications of these rows have."""
        of_items = {row.listed[0] for row in rows if row.listed is not None}
        lists = [value for name, value in self._filter.items() if name not in of_items and is_list(value)]
        return [uri for value in lists for uri in value if isinstance(uri, str)]

    def includes(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True if the filter includes a notification.

        A notification about a resource or an item of a list matches by its URI or id, others by their capability:
        `server.tools.listChanged` matches `toolsListChanged`.
        """
        if row.listed is not None:
            name, key = row.listed
            return is_list(listed := self._filter.get(name)) and params.get(key) in listed
        if "uri" in params:
            return uri_key(params["uri"]) in self._uris
        return self._filter.get(filter_key(row.capability)) is True


def supported_filter(
    requested: Mapping[str, Any], capabilities: Mapping[str, Any], rows: list[Notification]
) -> dict[str, Any]:
    """Return the part of a filter that a server with these capabilities supports."""
    declared = {
        path
        for path in (parse_capability_path(row.capability)[1] for row in rows)
        if is_declared(dict(capabilities), path)
    }
    flags = {filter_key(f"server.{'.'.join(path)}") for path in declared if len(path) > 1}
    has_resources = any(
        row.capability and "uri" in param_names(row) and parse_capability_path(row.capability)[1] in declared
        for row in rows
    )
    lists = {
        row.listed[0]: parse_capability_path(row.capability)[1] in declared for row in rows if row.listed is not None
    }
    return {
        name: value
        for name, value in requested.items()
        if (lists.get(name, has_resources) if is_list(value) else value is True and name in flags)
    }


def names_a_list(row: Notification) -> bool:
    """Return True if a notification says that a list has changed, and nothing more."""
    side, path = parse_capability_path(row.capability) if row.capability else ("", ())
    return side == "server" and len(path) > 1 and row.listed is None and param_names(row) <= {"meta"}


def is_within_resource(uri: str, resource: str) -> bool:
    """Return True if a URI is that of a resource or of a sub-resource, whose changes a server may report as well."""
    if uri == resource:
        return True
    uri, resource = uri_key(uri), uri_key(resource)
    return uri == resource or uri.startswith(resource if resource.endswith("/") else f"{resource}/")


def param_names(row: Notification) -> frozenset[str]:
    """Return the attributes of the params of a notification."""
    return frozenset(getattr(row.params, "__pydantic_fields__", {}))


def filter_key(capability: str) -> str:
    """Return the property of a filter for a capability: `server.tools.listChanged` → `toolsListChanged`."""
    first, *rest = parse_capability_path(capability)[1] if capability else ("",)
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def filter_of(params: Any) -> dict[str, Any]:
    """Return the filter in the params of a request to listen."""
    filter = getattr(params, "notifications", None)
    return plain_of(filter) if is_model(filter) else filter if is_object(filter) else {}
