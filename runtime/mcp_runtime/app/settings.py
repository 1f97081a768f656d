"""The keywords that the decorators take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ..server.task_options import TaskOptions


class Settings(TypedDict, total=False):
    """What can be said of anything beside its function; icons and annotations as objects of the types, or as dicts.
    `scopes`: who has not all of these in the token is refused, where the endpoint is reached over HTTP."""

    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    meta: Mapping[str, Any] | None
    scopes: Sequence[str]


class ToolSettings(Settings, total=False):
    """Of a tool. `input_schema`: JSON Schema of your own; the function then gets the arguments as one dict. `coerce`:
    "5" is taken for 5. `structured`: False for text alone, whatever the return type. `task`: calls become tasks, as
    True or a `Task` says, for clients that know the tasks extension."""

    annotations: Any
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    structured: bool
    coerce: bool
    task: bool | TaskOptions


class ResourceSettings(Settings, total=False):
    """Of a resource; `size` is in bytes. `public`: clients can fetch it from the web themselves, without this server,
    which is what its `https://` URI tells them."""

    name: str | None
    mime_type: str | None
    annotations: Any
    size: int | None
    public: bool


def to_wire(settings: Settings, description: str | None) -> dict[str, Any]:
    """What every definition says."""
    return {
        "title": settings.get("title"),
        "description": settings.get("description") or description,
        "icons": settings.get("icons"),
        "_meta": settings.get("meta"),
    }
