"""The `Implementation` that a server sends to clients, with the properties that a protocol version has.

https://modelcontextprotocol.io/specification/draft/schema#implementation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from ..protocol.models import is_object


def server_info(
    name: str,
    version: str,
    title: str | None,
    description: str | None,
    icons: Sequence[Any] | None,
    website_url: str | None,
) -> dict[str, Any]:
    """Return the `Implementation` as JSON, without absent properties."""
    shown = {
        "name": name,
        "version": version,
        "title": title,
        "description": description,
        "icons": None if icons is None else [_icon(icon) for icon in icons],
        "websiteUrl": website_url,
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
