"""Copies of records in another class, without a validation: for params whose properties have the same types there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from .core_records import CoreRecord


def without(record: CoreRecord, names: Collection[str]) -> CoreRecord:
    """Return a copy without some attributes, for `with_values`."""
    copy = record.model_copy(update={})
    copy.__dict__ = {name: value for name, value in vars(record).items() if name not in names}
    return copy


def with_values(record: CoreRecord, values: Mapping[str, Any]) -> CoreRecord:
    """Return a copy with further attributes, where its own take precedence: both must have all of them."""
    copy = type(record).__new__(type(record))
    copy.__dict__ = {**values, **vars(record)}
    copy.__pydantic_extra__ = {}
    copy.__pydantic_fields_set__ = record.__pydantic_fields_set__
    return copy


@cache
def has_types_of(record: Any, other: Any, except_for: frozenset[str]) -> bool:
    """Return True if the attributes of another class of records, but for some, are attributes here, of the same types:
    strings, numbers, objects and arrays, because names of types have a meaning in their table only."""
    own, others = _fields_of(record), _fields_of(other)
    compared = [field for name, field in others.items() if name not in except_for]
    is_plain = not any("schema_ref" in str(field) for field in compared)
    return is_plain and all(own.get(name) == others[name] for name in others.keys() - except_for)


def _fields_of(record: type[CoreRecord]) -> dict[str, Any]:
    """Return the types of the attributes of a record, and their names as properties."""
    schema = record.schema["schema"] if record.schema["type"] == "definitions" else record.schema
    fields: dict[str, Any] = schema["schema"]["fields"]
    return {name: (field.get("validation_alias"), field["schema"]) for name, field in fields.items()}
