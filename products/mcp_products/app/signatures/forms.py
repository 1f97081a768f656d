"""Arguments that are JSON text: some clients send objects and arrays as strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import SchemaSerializer, from_json, to_jsonable_python

from mcp_runtime._lazy import LazyModule
from mcp_runtime.protocol.json_text import is_finite
from mcp_runtime.protocol.models import is_list, is_object

if TYPE_CHECKING:
    import pydantic
    from pydantic import TypeAdapter

    from . import type_hints
else:  # Imported when they are used.
    type_hints = LazyModule("mcp_products.app.signatures.type_hints")
    pydantic = LazyModule("pydantic")

_REFERENCE: Final = "#/$defs/"
_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
# Formats of strings that are not text for people: dates, UUIDs and the like never are an object or an array.
_TEXT_FORMATS: Final = ("password", "path", "file-path", "directory-path", "binary", "base64", "base64url", "regex")

_SCALARS: Final = frozenset({str, int, float, bool, NoneType})
_BY_ALIAS: Final = "serialize_by_alias"
# Where an alias stands in the schemas of fields.
_ALIASES: Final = ("serialization_alias", "alias")
_NO_SCHEMAS: Final = ("metadata", "default", "cls", "config")
_WITH_CONFIGURATION: Final = ("model", "dataclass", "typed-dict")


def takes_text(schema: Any, whole: Mapping[str, Any]) -> bool:
    """Return True if a JSON Schema accepts free text, so that a string is meant as it is.

    Args:
        schema: The schema of an argument.
        whole: The schema with the definitions that references lead to.
    """
    seen = set[str]()
    opened = [schema]
    while opened:
        part = opened.pop()
        if not is_object(part):
            return True  # `true` accepts everything.
        reference = part.get("$ref")
        if isinstance(reference, str):
            if reference not in seen:
                seen.add(reference)
                opened.append(whole.get("$defs", {}).get(reference.removeprefix(_REFERENCE), {}))
            continue
        inner = [item for name in _ALTERNATIVES for item in part.get(name, ())]
        opened += inner
        if not inner and _is_text(part):
            return True
    return False


def _is_text(schema: Mapping[str, Any]) -> bool:
    if "enum" in schema or "const" in schema:
        return False
    kinds = schema.get("type", "string")
    has_text = "string" in kinds if is_list(kinds) else kinds == "string"
    return has_text and schema.get("format", "password") in _TEXT_FORMATS


def parsed_text(text: str, scalars: bool = False) -> Any:
    """Return the array, the object or the null that a string has as JSON text; other strings as they are.

    With `scalars`, numbers and booleans are read too, for arguments that can only be texts, as those of prompts.
    """
    if not scalars and not text.lstrip().startswith(("[", "{", "null")):
        return text
    try:
        parsed = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    is_read = parsed is None or is_object(parsed) or is_list(parsed) or (scalars and not isinstance(parsed, str))
    return parsed if is_read and is_finite(parsed) else text


# The JSON form that a type declares itself: the names of its properties, and the values of types in C.


def serializer_of(schema: Any) -> SchemaSerializer | None:
    """Return what writes the values of a core schema, if a type in it has `serialize_by_alias=False`; else None, and
    they are written by alias.

    pydantic asks the caller or the outermost type only.
    """
    if not _has(schema, lambda part: _configuration(part).get(_BY_ALIAS) is False):
        return None
    named = _without_unused_aliases(schema)
    make: Any = SchemaSerializer
    try:
        serializer: SchemaSerializer = make(named, _use_prebuilt=False)  # Those of the models have the aliases.
    except TypeError:  # pydantic without this keyword.
        serializer = make(named)
    return serializer


def holds_any(schema: Any) -> bool:
    """Return True if a part of a core schema takes any value."""
    return _has(schema, lambda part: part.get("type") == "any")


def with_own_names(value: Any) -> Any:
    """Return a value with its models as dicts, if their types have `serialize_by_alias=False`."""
    kind = cast(Any, type(value))
    if kind in _SCALARS:
        return value
    if (serializer := serializer_of_class(kind)) is not None:
        return serializer.to_python(value, mode="json", by_alias=True, fallback=fallback)
    if kind is dict and not _SCALARS.issuperset(map(type, value.values())):
        return {name: with_own_names(item) for name, item in value.items()}
    if kind in (list, tuple) and not _SCALARS.issuperset(map(type, value)):
        return cast(Any, kind)([with_own_names(item) for item in value])
    return value


def fallback(value: Any) -> Any:
    """Return a value of a class that pydantic writes only if it is declared, or the attributes of another one.

    Raises ValueError for a value without either.
    """
    if isinstance(value, memoryview):  # pydantic writes `bytes` and `bytearray` itself.
        return value.tobytes()
    kind = cast(Any, type(value))
    if (adapter := _adapter_of(kind)) is not None:
        return adapter.dump_python(value, mode="json")
    attributes = type_hints.attributes_of(value)
    if attributes is None:
        raise ValueError(f"a value of the type {kind.__qualname__!r} has no form in JSON")
    return attributes


def is_known(value: object) -> bool:
    """Return True if a value of a class that is not a collection can be written."""
    try:
        to_jsonable_python(value, fallback=fallback)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=256)
def _adapter_of(cls: type[Any]) -> TypeAdapter[Any] | None:
    try:
        return pydantic.TypeAdapter[Any](cls)
    except (*type_hints.UNREADABLE, TypeError, ValueError):
        return None


@lru_cache(maxsize=256)
def serializer_of_class(cls: type[Any]) -> SchemaSerializer | None:
    """Return `serializer_of` the schema of a class; None for one that pydantic does not know."""
    schema: Any = getattr(cls, "__pydantic_core_schema__", None)
    return serializer_of(schema) if is_object(schema) else None


def _configuration(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    configuration = schema.get("config") if schema.get("type") in _WITH_CONFIGURATION else None
    return configuration if is_object(configuration) else {}


def _inner(schema: Any) -> list[Any]:
    if is_object(schema):
        fields = schema.get("fields")
        own = [item for key, item in schema.items() if key not in _NO_SCHEMAS]
        return [*own, *fields.values()] if is_object(fields) else own
    items: Any = schema
    return [*items] if isinstance(schema, (list, tuple)) else []


def _has(schema: Any, accepts: Callable[[Mapping[str, Any]], bool]) -> bool:
    opened = [schema]
    while opened:
        part = opened.pop()
        if is_object(part) and accepts(part):
            return True
        opened += _inner(part)
    return False


def _without_unused_aliases(schema: Any, by_alias: bool = True) -> Any:
    """Return a core schema without the aliases of the types that are not written by alias."""
    if is_list(schema):
        return [_without_unused_aliases(item, by_alias) for item in schema]
    if isinstance(schema, tuple):
        items = cast("list[Any]", schema)
        return tuple(_without_unused_aliases(item, by_alias) for item in items)
    if not is_object(schema):
        return schema
    if schema.get("type") in _WITH_CONFIGURATION:
        by_alias = _configuration(schema).get(_BY_ALIAS) is not False
    copy = dict[str, Any]()
    for key, item in schema.items():
        if key == "fields" and is_object(item):
            item = {name: _without_unused_aliases(field, by_alias) for name, field in item.items()}
        elif key not in _NO_SCHEMAS:
            item = _without_unused_aliases(item, by_alias)
        if by_alias or key not in _ALIASES:
            copy[key] = item
    return copy
