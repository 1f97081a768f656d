"""The `Implementation` that a server sends to clients, with the properties that a protocol version has.

https://modelcontextprotocol.io/specification/draft/schema#implementation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from ..protocol.models import is_model, is_model_type, is_object
from ..protocol.wire.core_records import property_names, property_type

if TYPE_CHECKING:
    pass


class IdentityKeywords(TypedDict, total=False):
    """What users see of a server: `title`, its name for users; `description`, what it does; `icons`, Icon objects or
    dicts; and `website_url`."""

    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    website_url: str | None


def server_info(name: str, version: str, identity: IdentityKeywords) -> dict[str, Any]:
    """Return the `Implementation` as JSON, without absent properties."""
    icons = identity.get("icons")
    shown = {
        "name": name,
        "version": version,
        "title": identity.get("title"),
        "description": identity.get("description"),
        "icons": None if icons is None else [_icon(icon) for icon in icons],
        "websiteUrl": identity.get("website_url"),
    }
    return {key: value for key, value in shown.items() if value is not None}


def info_for(result: Any, field: str, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that the `Implementation` of a result type has; `field` is its wire name there."""
    implementation: Any = property_type(result, field)
    has_fields = is_model_type(implementation)
    names = (property_names(implementation) if has_fields else frozenset[str]()) or {"name", "version"}
    return {key: value for key, value in info.items() if key in names}


def _icon(icon: Any) -> Any:
    if is_object(icon):
        return dict(icon)
    return icon.model_dump(mode="json", by_alias=True, exclude_none=True) if is_model(icon) else icon
