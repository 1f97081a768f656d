"""Small classes and functions of the official SDK's low level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass
class NotificationOptions:
    """Which lists a low-level server declares to change."""

    prompts_changed: bool = False
    resources_changed: bool = False
    tools_changed: bool = False


@dataclass
class InitializationOptions:
    """What a low-level server declares about itself."""

    server_name: str
    server_version: str
    capabilities: BaseModel | Mapping[str, Any]
    title: str | None = None
    description: str | None = None
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Any] | None = None


@dataclass
class ReadResourceContents:
    """What a `read_resource` handler returns for one resource: text or bytes."""

    content: str | bytes
    mime_type: str | None = None
    meta: dict[str, Any] | None = None


def get_display_name(item: Any) -> str:
    """Return the name to show for a tool, resource, template or prompt: its title if it has one, else its name."""
    title = getattr(item, "title", None)
    if title is None and (annotations := getattr(item, "annotations", None)) is not None:
        title = getattr(annotations, "title", None)
    return str(item.name if title is None else title)
