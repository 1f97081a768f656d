"""Strings, numbers and booleans: JSON Schemas and validators. Most functions need no others, and no model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, cast

from pydantic_core import SchemaValidator

_CORE_SCHEMAS: Final[Mapping[Any, dict[str, Any]]] = {
    str: {"type": "str"},
    int: {"type": "int"},
    float: {"type": "float", "allow_inf_nan": False},
    bool: {"type": "bool"},
}
_TYPES: Final[Mapping[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def scalar_type(hint: object) -> str | None:
    """Return the JSON type of `str`, `int`, `float` and `bool`; None for other type hints."""
    return _TYPES.get(hint) if type(hint) is type else None


def scalars_schema(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], descriptions: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the JSON Schema of an object with these parameters; None if one is no scalar, or its default is not."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in parameters.items():
        kind = scalar_type(hints.get(name))
        if kind is None:
            return None
        schema = properties[name] = dict[str, Any]()
        if parameter.default is parameter.empty:
            required.append(name)
        elif _is_plain(parameter.default, hints[name]):
            schema["default"] = parameter.default
        else:
            return None
        if descriptions.get(name):
            schema["description"] = inspect.cleandoc(descriptions[name])
        schema["type"] = kind
    required_names = {"required": required} if required else {}
    return {"type": "object", "additionalProperties": False, "properties": properties, **required_names}


class Arguments:
    """The arguments of a function, as pydantic_core validates them."""

    __slots__ = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")


def scalars_validator(
    keys: Mapping[str, str], parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> SchemaValidator:
    """Return the validator of arguments that are scalars, as that of their model would be.

    Args:
        keys: The attributes of the validated arguments, by the names of the parameters.
        parameters: The parameters.
        hints: Their type hints.
    """
    fields: dict[str, Any] = {}
    for name, key in keys.items():
        schema = _CORE_SCHEMAS[hints[name]]
        if (default := parameters[name].default) is not inspect.Parameter.empty:
            schema = {"type": "default", "schema": schema, "default": default}
        fields[key] = {"type": "model-field", "schema": schema, "validation_alias": name, "serialization_alias": name}
    schema = {
        "type": "model",
        "cls": Arguments,
        "schema": {"type": "model-fields", "model_name": "Arguments", "fields": fields, "extra_behavior": "forbid"},
        "config": {"title": "Arguments"},
    }
    return SchemaValidator(cast(Any, schema))


def _is_plain(default: Any, hint: Any) -> bool:
    """Return True for a default that has the type of its parameter, and that JSON can express."""
    if type(default) is not hint:
        return False
    return default.isascii() if hint is str else hint is not float or isfinite(default)
