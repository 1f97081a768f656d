"""JSON Schema 2020-12: which value each keyword may have. A table: the base package has no validator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .snapshot import is_list, is_object

_TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})


def _schema(value: object) -> bool:
    return isinstance(value, bool | dict)


def _schemas(value: object) -> bool:
    return is_list(value) and len(value) > 0 and all(_schema(item) for item in value)


def _named_schemas(value: object) -> bool:
    return is_object(value) and all(_schema(item) for item in value.values())


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return _number(value) and isinstance(value, int | float) and value >= 0 and value == int(value)


def _positive(value: object) -> bool:
    return _number(value) and isinstance(value, int | float) and value > 0


def _text(value: object) -> bool:
    return isinstance(value, str)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _texts(value: object) -> bool:
    return is_list(value) and all(isinstance(item, str) for item in value) and len(set(value)) == len(value)


def _named_texts(value: object) -> bool:
    return is_object(value) and all(_texts(item) for item in value.values())


def _type(value: object) -> bool:
    return value in _TYPES if isinstance(value, str) else _texts(value) and value != [] and set(value) <= _TYPES  # type: ignore[call-overload]


# Each keyword: what it may be, in words too, and the value.
_FORMS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    **dict.fromkeys(
        "additionalProperties contains else if items not propertyNames then unevaluatedItems "
        "unevaluatedProperties".split(),
        ("a schema", _schema),
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), ("a list of schemas", _schemas)),
    **dict.fromkeys(
        ("$defs", "definitions", "properties", "patternProperties", "dependentSchemas"),
        ("an object of schemas", _named_schemas),
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), ("a number", _number)),
    **dict.fromkeys(
        "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains".split(),
        ("a number of 0 or more", _count),
    ),
    **dict.fromkeys(
        "$ref $id $schema $anchor $comment title description format pattern".split(),
        ("a text", _text),
    ),
    **dict.fromkeys("uniqueItems deprecated readOnly writeOnly".split(), ("true or false", _flag)),
    "multipleOf": ("a number above 0", _positive),
    "required": ("a list of different names", _texts),
    "dependentRequired": ("an object of lists of names", _named_texts),
    "enum": ("a list", is_list),
    "examples": ("a list", is_list),
    "type": ("one of the seven types, or a list of them", _type),
}
_INSTEAD: Final = {
    "items": '"prefixItems": […] for a list of schemas, which items was before 2020-12',
    "exclusiveMinimum": '"exclusiveMinimum": the number; true or false is draft 4',
    "exclusiveMaximum": '"exclusiveMaximum": the number; true or false is draft 4',
    "required": '"required": ["name"] of the object, not true at the property',
}


def problem_of(schema: Mapping[str, object], root: bool = False) -> tuple[str, str, str] | None:
    """Return what is wrong with the keywords of one schema, what to write, and the keyword; None if nothing is."""
    for key, value in schema.items():
        form = _FORMS.get(key)
        if form is not None and not form[1](value):
            return f"{key} must be {form[0]}, not {str(value)[:40]}", _INSTEAD.get(key, f"{key}: {form[0]}"), key
    return None
