"""The keyword arguments of the decorators, and what their values must be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, cast, get_args

from pydantic_core import ValidationError, to_json

from ..aio.rate_limit import RateLimit
from ..errors import LocalError
from ..protocol.models import format_validation_error, is_model, is_model_type, is_object
from ..protocol.revision import Revision
from ..server.cache_hints import CacheHint, add_cache_hints
from ..server.limits import check_handlers
from ..server.task_options import TaskOptions
from ..server.visibility import text_set
from ..usage.functions import check_lifespan
from ..usage.keywords import nearest
from ..usage.rules import (
    COUNT,
    FLAG,
    HOST,
    MAPPING,
    NAME,
    PORT,
    TEXT,
    Rule,
    are_texts,
    check_writable,
    is_items,
    is_number,
)
from .components.versions import NAMESPACE

if TYPE_CHECKING:
    from pydantic import BaseModel

ModelT = TypeVar("ModelT", bound="BaseModel")


class Settings(TypedDict, total=False):
    """The common keywords: `title`, `description` (default: the docstring), `icons` (Icon objects or dicts), and `meta`
    (the `_meta` of the definition). `scopes` are OAuth scopes: over HTTP, requests without all of them are rejected.
    `tags` are names for `app.disable(tags=…)`; clients see them in the `_meta` as well. With `thread=False` a plain
    `def` runs in the event loop instead of a worker thread: write it only where the function never blocks. Several
    items of one name can have a `version`: clients see the highest, and a request can name another one in `_meta`."""

    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    meta: Mapping[str, Any] | None
    scopes: Sequence[str]
    tags: Collection[str]
    thread: bool
    version: str | int | float | None


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


def _are_objects(value: Any) -> bool:
    return is_items(value) and all(_is_object(item) for item in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) or is_model(value)


def _is_version(value: Any) -> bool:
    return (isinstance(value, str) and bool(value.strip())) or is_number(value)


def _is_mime_type(value: Any) -> bool:
    return isinstance(value, str) and "/" in value.strip("/")


# What the values of keywords must be; a keyword without a rule takes any value.
RULES: Final[Mapping[str, Rule]] = {
    "name": NAME.or_none(),
    "title": TEXT.or_none(),
    "description": TEXT.or_none(),
    "icons": Rule(_are_objects, 'a list of icons, such as [{"src": "https://…"}]').or_none(),
    "meta": MAPPING.or_none(),
    "scopes": Rule(are_texts, 'a list of strings, such as ["admin"]'),
    "input_schema": Rule(_is_object, 'a JSON Schema, a dict such as {"type": "object"}').or_none(),
    "output_schema": Rule(_is_object, 'a JSON Schema, a dict such as {"type": "object"}').or_none(),
    "structured_output": Rule(lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "coerce": FLAG,
    "thread": FLAG,
    "version": Rule(_is_version, 'a version such as "1.0"').or_none(),
    "public": FLAG,
    "task": Rule(lambda value: isinstance(value, (bool, TaskOptions)), "True, False or TaskOptions(…)"),
    "mime_type": Rule(_is_mime_type, 'a MIME type, such as "text/plain"').or_none(),
    "size": Rule(lambda value: value is None or (type(value) is int and value >= 0), "a number of bytes, 0 or more"),
    "annotations": Rule(_is_object, 'a dict, such as {"readOnlyHint": True}').or_none(),
}


def _are_exceptions(value: Any) -> bool:
    return is_items(value) and all(isinstance(item, type) and issubclass(item, Exception) for item in value)


def _are_handler_rates(value: Any) -> bool:
    return _are_values(value, lambda item: item is None or isinstance(item, RateLimit))


def _are_values(value: Any, accepts: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(map(accepts, cast("Mapping[str, Any]", value).values()))


_LISTS: Final = ("tools", "resources", "prompts")

_POLICIES: Final = ("error", "warn", "replace", "ignore")

# What the arguments of the constructor of an app must be.
APP_RULES: Final[Mapping[str, Rule]] = {
    "name": NAME,
    "host": HOST,
    "port": PORT,
    "instructions": TEXT.or_none(),
    "version": TEXT,
    "coerce": FLAG,
    "dereference_schemas": FLAG,
    "on_duplicate": Rule(
        lambda value: isinstance(value, str) and value in _POLICIES, 'one of "error", "warn", "replace" and "ignore"'
    ),
    "tool_errors": Rule(_are_exceptions, "a tuple of exception classes, such as (KeyError,)"),
    "page_size": COUNT,
    "declare": Rule(
        lambda value: are_texts(value) and {*value} <= {*_LISTS}, 'a list of "tools", "resources" and "prompts"'
    ),
    "capabilities": Rule(MAPPING.accepts, 'a dict, such as {"logging": {}}').or_none(),
    "keys": Rule(lambda value: hasattr(value, "lifetime"), "a KeyRing").or_none(),
    "rate_limits": Rule(_are_handler_rates, 'a dict such as {"call_tool": RateLimit(10, burst=50)}').or_none(),
    "cache_hints": Rule(
        lambda value: _are_values(value, lambda item: isinstance(item, CacheHint)),
        'a dict such as {"list_tools": CacheHint(60, "public")}',
    ).or_none(),
    "tasks": Rule(lambda value: not isinstance(value, (bool, str, int)), "a TaskStore").or_none(),
}


def check_app(
    function: str,
    revision: Revision,
    lifespan: object,
    rate_limits: Mapping[str, RateLimit | None] | None,
    cache_hints: Mapping[str, CacheHint] | None,
) -> dict[str, Any]:
    """Return the options of the server.

    Raises LocalError for a wrong lifespan, and for a rate limit or a cache hint of something that is no handler.
    """
    check_lifespan(lifespan, function)
    check_handlers(function, revision, rate_limits)
    add_cache_hints({}, revision.table("client_to_server").values(), cache_hints or {})
    return {"rate_limits": rate_limits, "cache_hints": cache_hints}


def to_wire(settings: Settings, description: str | None) -> dict[str, Any]:
    """Return the properties that all definitions have."""
    own = settings.get("description")
    return {
        "title": settings.get("title"),
        "description": description if own is None else own,
        "icons": settings.get("icons"),
        "_meta": _meta(settings),
    }


def to_definition(model: type[ModelT], properties: Mapping[str, Any], description: str) -> ModelT:
    """Return the definition of a tool, resource or prompt. Raises LocalError for a property that does not fit."""
    annotations = properties.get("annotations")
    if isinstance(annotations, Mapping):
        _check_annotations(model, cast("Mapping[str, Any]", annotations), description)
    check_definition(properties, description)
    try:
        return model.model_validate(properties)
    except ValidationError as error:
        raise LocalError(f"{description}: {format_validation_error(error)}") from None


def check_definition(properties: Mapping[str, Any], description: str) -> None:
    """Raise LocalError for a definition with a text that JSON cannot express, such as a docstring or a default."""
    try:
        to_json(properties)
    except ValueError:
        check_writable(description, properties)


def _check_annotations(model: type[BaseModel], annotations: Mapping[str, Any], description: str) -> None:
    """Raise LocalError for an annotation that differs little from one of the specification, which clients would ignore;
    other annotations are allowed."""
    kinds = get_args(model.__pydantic_fields__["annotations"].annotation)
    fields = next(kind for kind in kinds if is_model_type(kind)).__pydantic_fields__
    names = [field.alias or name for name, field in fields.items()]
    for name in annotations:
        if name in names or name in fields:
            continue
        closest = nearest(name, names, "annotations")
        if "did you mean" in closest:
            raise LocalError(f"{description}: there is no annotation {name!r}; {closest}")


def tags_of(settings: Settings, description: str) -> frozenset[str]:
    """Return the tags. Raises TypeError for a string, and for what is no collection of strings."""
    tags = settings.get("tags")
    return frozenset() if not tags else text_set(description, "tags", tags)


def version_of(settings: Settings) -> str | None:
    """Return the version as text."""
    version = settings.get("version")
    return None if version is None else str(version)


def _meta(settings: Settings) -> Mapping[str, Any] | None:
    """Return the `_meta` of a definition, with the tags in alphabetical order and the version."""
    meta, tags, version = settings.get("meta"), settings.get("tags"), version_of(settings)
    own: dict[str, Any] = {"tags": sorted(tags)} if tags else {}
    if version is not None:
        own["version"] = version
    if not own:
        return meta
    namespace = (meta or {}).get(NAMESPACE)
    return {**(meta or {}), NAMESPACE: {**(namespace if is_object(namespace) else {}), **own}}
