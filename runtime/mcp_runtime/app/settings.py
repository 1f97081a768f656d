"""The keyword arguments of the decorators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ..server.task_options import TaskOptions


class Settings(TypedDict, total=False):
    """The common keywords: `title`, `description` (default: the docstring), `icons` (Icon objects or dicts), and `meta`
    (the `_meta` of the definition). `scopes` are OAuth scopes: over HTTP, requests without all of them are rejected."""

    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    meta: Mapping[str, Any] | None
    scopes: Sequence[str]


class ToolSettings(Settings, total=False):
    """The keywords of a tool.

    `annotations` are ToolAnnotations or a dict. With `input_schema`, an explicit JSON Schema, the function gets the
    arguments as one dict; `output_schema` is an explicit schema of the structured content. `structured_output` says
    whether results have structured content: by default if the return type has a JSON Schema and is not content, never
    for False, and for True a return type that cannot have it is an error. `coerce=True` accepts "5" for an int.
    `task=True` or TaskOptions run calls as tasks for clients with the tasks extension.
    """

    annotations: Any
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    structured_output: bool | None
    coerce: bool
    task: bool | TaskOptions


class ResourceSettings(Settings, total=False):
    """The keywords of a resource: `name` (default: that of the function), `mime_type`, `annotations` (Annotations or a
    dict), and `size` in bytes. `public=True` confirms that clients can fetch its `https://` URI without this server."""

    name: str | None
    mime_type: str | None
    annotations: Any
    size: int | None
    public: bool


def check_keywords(method: str, settings: Mapping[str, Any], allowed: type[Any]) -> None:
    """Raise TypeError for the first keyword argument that a TypedDict does not define."""
    names: list[str] = sorted(allowed.__optional_keys__ | allowed.__required_keys__)
    for name in settings:
        if name not in names:
            raise TypeError(f"{method}() has no keyword argument {name!r}; the keywords are {', '.join(names)}")


def to_wire(settings: Settings, description: str | None) -> dict[str, Any]:
    """Return the properties that all definitions have."""
    return {
        "title": settings.get("title"),
        "description": settings.get("description") or description,
        "icons": settings.get("icons"),
        "_meta": settings.get("meta"),
    }
