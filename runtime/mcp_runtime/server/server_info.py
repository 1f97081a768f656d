"""The `Implementation` that a server sends to clients, with the properties that a protocol version has.

https://modelcontextprotocol.io/specification/draft/schema#implementation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from pydantic import BaseModel

from ..protocol.models import is_object


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


def info_for(result: type[BaseModel], field: str, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that the `Implementation` of a result type has; `field` is its wire name there."""
    result.model_rebuild()  # Else the annotation is a string until the first instance.
    types = [item.annotation for item in result.model_fields.values() if item.alias == field]
    implementation: Any = types[0] if types else None
    fields: Mapping[str, Any] = getattr(implementation, "model_fields", {})
    names = {item.alias or name for name, item in fields.items()} or {"name", "version"}
    return {key: value for key, value in info.items() if key in names}


def _icon(icon: Any) -> Any:
    if is_object(icon):
        return dict(icon)
    return icon.model_dump(mode="json", by_alias=True, exclude_none=True) if isinstance(icon, BaseModel) else icon
