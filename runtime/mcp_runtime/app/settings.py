"""The keyword arguments of the decorators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypedDict

from ..protocol.models import is_object
from ..server.task_options import TaskOptions
from ..server.visibility import text_set

# The namespace of FastMCP in `_meta`: clients that filter by tags read it.
_TAGS_META: Final = "fastmcp"


class Settings(TypedDict, total=False):
    """The common keywords: `title`, `description` (default: the docstring), `icons` (Icon objects or dicts), and `meta`
    (the `_meta` of the definition). `scopes` are OAuth scopes: over HTTP, requests without all of them are rejected.
    `tags` are names for `app.disable(tags=…)`; clients see them in the `_meta` as well."""

    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    meta: Mapping[str, Any] | None
    scopes: Sequence[str]
    tags: Collection[str]


class ToolSettings(Settings, total=False):
    """The keywords of a tool.

    `annotations` are ToolAnnotations or a dict. With `input_schema`, an explicit JSON Schema, the function gets the
    arguments as one dict; `output_schema` is an explicit schema of the structured content. `structured_output` says
    whether results have structured content: by default if the return type has a JSON Schema and is not content, never
    for False, and for True a return type that cannot have it is an error. `coerce=True` accepts "5" for an int.
    `task=True` or TaskOptions run calls as tasks for clients with the tasks extension. After
    `timeout` seconds the handler is cancelled, and the result is an error; a plain `def` runs on in its thread, and its
    value is dropped.
    """

    annotations: Any
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    structured_output: bool | None
    coerce: bool
    task: bool | TaskOptions
    timeout: float | None


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
        "_meta": _meta(settings),
    }


def tags_of(settings: Settings, description: str) -> frozenset[str]:
    """Return the tags. Raises TypeError for a string, and for what is no collection of strings."""
    tags = settings.get("tags")
    return frozenset() if not tags else text_set(description, "tags", tags)


def _meta(settings: Settings) -> Mapping[str, Any] | None:
    """Return the `_meta` of a definition, with the tags in alphabetical order."""
    meta, tags = settings.get("meta"), settings.get("tags")
    if not tags:
        return meta
    namespace = (meta or {}).get(_TAGS_META)
    return {**(meta or {}), _TAGS_META: {**(namespace if is_object(namespace) else {}), "tags": sorted(tags)}}
