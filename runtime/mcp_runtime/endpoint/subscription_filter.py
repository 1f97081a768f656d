"""A notification about the server goes in, and reaches every client that wants it: in its session, or on the stream it
listens on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.capabilities import is_declared, parse_capability_path
from ..protocol.models import is_list, is_object
from ..protocol.revision import Notification

if TYPE_CHECKING:
    pass


def matches_filter(filter: Mapping[str, Any], row: Notification, params: Mapping[str, Any]) -> bool:
    """Whether a filter names a notification: by its capability (`server.tools.listChanged` → `toolsListChanged`), or,
    where it is about a resource or one of a list, by that."""
    if row.listed is not None:
        name, key = row.listed
        return is_list(listed := filter.get(name)) and params.get(key) in listed
    if "uri" in params:
        return any(is_list(value) and params["uri"] in value for value in filter.values())
    return filter.get(filter_key(row.capability)) is True


def supported_filter(
    requested: Mapping[str, Any], capabilities: Mapping[str, Any], rows: list[Notification]
) -> dict[str, Any]:
    """The part of a filter that a server with these capabilities can honour."""
    can = {
        parse_capability_path(row.capability)[1]
        for row in rows
        if is_declared(dict(capabilities), parse_capability_path(row.capability)[1])
    }
    names = {filter_key(f"server.{'.'.join(path)}") for path in can if len(path) > 1}
    watches = any(
        row.capability and "uri" in param_names(row) and parse_capability_path(row.capability)[1] in can for row in rows
    )
    lists = {row.listed[0]: parse_capability_path(row.capability)[1] in can for row in rows if row.listed is not None}
    return {
        name: value
        for name, value in requested.items()
        if (lists.get(name, watches) if is_list(value) else value is True and name in names)
    }


def is_within_resource(uri: str, resource: str) -> bool:
    """Whether a URI is that of a resource, or of a part of it: a server may tell of a part, where the whole is watched."""
    return uri == resource or uri.startswith(resource if resource.endswith("/") else f"{resource}/")


def param_names(row: Notification) -> frozenset[str]:
    """The properties of the params of a notification."""
    return frozenset(getattr(row.params, "model_fields", {}))


def filter_key(capability: str) -> str:
    """How a filter names the changes that need this capability: `server.tools.listChanged` → `toolsListChanged`."""
    first, *rest = parse_capability_path(capability)[1] if capability else ("",)
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def filter_of(params: Any) -> dict[str, Any]:
    """The filter in the params of a request to listen."""
    found = params.model_dump().get("notifications")
    return found if is_object(found) else {}
