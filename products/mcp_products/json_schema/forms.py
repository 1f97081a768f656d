"""The content of a form against its schema, also without a JSON Schema validator.

A form is an object of strings, numbers, booleans and choices; its schema uses few keywords:
https://modelcontextprotocol.io/specification/draft/client/elicitation#requested-schema
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from mcp_runtime.errors import InvalidSchemaError, LocalError
from mcp_runtime.protocol.models import is_list, is_object

from .validator import compile_schema

_log: Final = logging.getLogger("mcp_runtime.endpoint.checks")

# The keywords with a limit: whether it is that of a length, and whether it is the smallest value.
_LIMITS: Final = {
    "minimum": (False, True),
    "maximum": (False, False),
    "minLength": (True, True),
    "maxLength": (True, False),
    "minItems": (True, True),
    "maxItems": (True, False),
}


def form_error(schema: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
    """Return the first error of a form's content with its path; None if it is valid, or its schema cannot be used."""
    try:
        return compile_schema(schema).first_error(content)
    except InvalidSchemaError as error:
        _log.debug("the content of a form is not checked: %s", error)
        return None
    except LocalError:  # jsonschema-rs is not installed, and a form needs little of JSON Schema.
        return first_form_error(schema, content)


def first_form_error(schema: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
    """Return the first error of a form's content with its path, None if it is valid. It ignores unknown keywords."""
    for name in schema.get("required") or ():
        if name not in content:
            return f"{name!r} is a required property"
    properties = schema.get("properties")
    for name, value in content.items():
        field = properties.get(name) if is_object(properties) else None
        if is_object(field) and (error := _value_error(field, value)):
            return f"{name}: {error}"
    return None


def _value_error(field: Mapping[str, Any], value: Any) -> str | None:
    kind = field.get("type")
    if kind is not None and not _has_type(value, kind):
        return f"{value!r:.100} is not of type {kind!r}"
    choices = _choices(field)
    if choices is not None and value not in choices:
        return f"{value!r:.100} is not one of {choices!r:.200}"
    for keyword, (of_length, smallest) in _LIMITS.items():
        limit = field.get(keyword)
        if limit is None or isinstance(value, str | list) is not of_length:
            continue
        size = len(value) if of_length else value
        if size < limit if smallest else size > limit:
            return f"{value!r:.100} does not hold {keyword} {limit}"
    items = field.get("items")
    if is_list(value) and is_object(items):
        return next(filter(None, (_value_error(items, item) for item in value)), None)
    return None


def _has_type(value: Any, kind: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return is_list(value)
        case "integer" | "number":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and (kind == "number" or isinstance(value, int) or value.is_integer())
        case _:
            return True


def _choices(field: Mapping[str, Any]) -> list[Any] | None:
    """Return the values that a field may have: of `enum`, or the constants of `oneOf` and `anyOf`."""
    for keyword in ("oneOf", "anyOf"):
        options = field.get(keyword)
        if is_list(options) and all(is_object(option) and "const" in option for option in options):
            return [option["const"] for option in options]
    choices = field.get("enum")
    return choices if is_list(choices) else None
