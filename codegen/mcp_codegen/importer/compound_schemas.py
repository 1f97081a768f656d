"""The normalized schemas of records and tuples, from those of their values."""

from __future__ import annotations

import json

from .schema_references import Schema


def record_schema(values: Schema, *, has_numbers: bool) -> Schema:
    """Return the schema of `Record<string, T>` or `Record<number, T>`."""
    if not values and not has_numbers:
        return {"type": "object", "x-open": True}
    # The official tool omits the values, but not those of numbers.
    numbers = {"additionalProperties": False, "patternProperties": {"^[0-9]+$": values}}
    official = {"type": "object"} | (numbers if has_numbers else {})
    return {"type": "object", "additionalProperties": values, "x-official": official}


def tuple_schema(items: list[Schema], minimum: int, rest: Schema | None) -> Schema:
    """Return the schema of a tuple: an array of its types, with its length. The official tool gives the type of each
    item."""
    values = items if rest is None else [*items, rest]
    distinct = [*{json.dumps(item): item for item in values}.values()]
    sizes = {"minItems": minimum} | ({"maxItems": len(items)} if rest is None else {})
    official = {"type": "array", **({"items": items} if items else {}), **sizes} | (
        {} if rest is None else {"additionalItems": rest}
    )
    inner = distinct[0] if len(distinct) == 1 else {"anyOf": distinct} if distinct else {}
    return {"type": "array", "items": inner, **sizes, "x-official": official}
