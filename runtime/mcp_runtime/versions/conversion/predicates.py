"""Predicates of shapes: check whether a JSON value matches a type, as generated conversion steps describe it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_core import SchemaValidator

from ...protocol.models import is_list, is_object

Fits = Callable[[Any], bool]
Records = Mapping[str, Mapping[str, Any]]


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


_KINDS: Final[Mapping[str, Fits]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "any": lambda value: True,
}


def predicate_for(shape: Any, records: Records) -> Fits:
    """Return the predicate of a shape; `records` are the object types that shapes refer to by name."""
    if shape is None:
        return _KINDS["any"]
    if isinstance(shape, str):
        return _KINDS.get(shape) or _record(shape, records)
    kind, *rest = shape
    match kind:
        case "values":
            return lambda value: any(type(value) is type(allowed) and value == allowed for allowed in rest)
        case "list":
            return _list(records, *rest)
        case "map":
            if rest[0] is None:
                return is_object
            inner = predicate_for(rest[0], records)
            return lambda value: is_object(value) and all(map(inner, value.values()))
        case "one_of":
            arms = [predicate_for(arm, records) for arm in rest]
            return lambda value: any(arm(value) for arm in arms)
        case "range":
            return _within_bounds(*rest)
        case "text":
            return _text(*rest)
        case _:
            raise ValueError(f"unknown shape {kind!r}")


def _list(records: Records, shape: Any, least: int | None = None, most: int | None = None) -> Fits:
    item = None if shape is None else predicate_for(shape, records)

    def fits(value: Any) -> bool:
        if not is_list(value) or len(value) < (least or 0) or (most is not None and len(value) > most):
            return False
        return item is None or all(map(item, value))

    return is_list if item is None and least is None and most is None else fits


def _text(least: int | None, most: int | None, pattern: str | None) -> Fits:
    """Return the predicate of a text, with the regular expressions of models, which take no more than linear time."""
    bounds = {"min_length": least, "max_length": most, "pattern": pattern}
    schema: Any = {"type": "str", "strict": True} | {key: bound for key, bound in bounds.items() if bound is not None}
    return SchemaValidator(schema).isinstance_python


def _within_bounds(kind: str, minimum: int | None, maximum: int | None) -> Fits:
    def fits(value: Any) -> bool:
        return _KINDS[kind](value) and (minimum is None or value >= minimum) and (maximum is None or value <= maximum)

    return fits


def _record(name: str, records: Records) -> Fits:
    """Return the predicate of an object type. It is compiled on first use, because records may be recursive."""
    compiled: list[tuple[list[str], dict[str, Fits], frozenset[str] | None]] = []

    def fits(value: Any) -> bool:
        if not is_object(value):
            return False
        if not compiled:
            record = records[name]
            compiled.append(
                (
                    record["required"],
                    {key: predicate_for(predicate, records) for key, predicate in record["properties"].items()},
                    frozenset(record["closed"]) if "closed" in record else None,
                )
            )
        required, properties, closed = compiled[0]
        if closed is not None and not closed.issuperset(value):
            return False
        return all(key in value for key in required) and all(
            predicate(value[key]) for key, predicate in properties.items() if key in value
        )

    return fits
