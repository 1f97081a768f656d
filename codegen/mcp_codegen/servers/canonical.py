"""The canonical form and the hash of an item of a contract: equal for all equivalent spellings.

The order of keys, the order of lists that JSON Schema treats as sets, and white space in descriptions are ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from ..json_types import JsonObject, is_list, is_object

_PROSE: Final = frozenset({"description", "title", "$comment"})
_SETS: Final = frozenset({"required", "enum", "type", "anyOf", "oneOf", "allOf", "examples"})
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_UNCHANGED: Final = frozenset({"default", "const"})


def canonical(item: JsonObject) -> JsonObject:
    """Return a tool, prompt or resource template in its canonical form, without its `_meta` and icons."""
    return {key: _part(key, value) for key, value in sorted(item.items()) if key not in ("_meta", "icons")}


def digest(item: JsonObject) -> str:
    """Return the sha256 of the canonical form of an item, in hexadecimal."""
    return hashlib.sha256(_text(canonical(item)).encode()).hexdigest()


def _part(key: str, value: Any) -> Any:
    if key in _SCHEMAS:
        return schema(value)
    if key in _PROSE and isinstance(value, str):
        return " ".join(value.split())
    if key == "arguments" and is_list(value):
        return sorted((canonical(argument) if is_object(argument) else argument for argument in value), key=_text)
    return value


def schema(value: Any) -> Any:
    """Return a JSON Schema in its canonical form."""
    if not is_object(value):
        return value
    return {key: _keyword(key, part) for key, part in sorted(value.items())}


def _keyword(key: str, value: Any) -> Any:
    if key in _UNCHANGED:
        return value
    if key in _PROSE and isinstance(value, str):
        return " ".join(value.split())
    if key in _BY_NAME and is_object(value):
        return {name: schema(part) for name, part in sorted(value.items())}
    if is_list(value):
        parts = [schema(part) for part in value] if key not in ("enum", "examples") else value
        return sorted(parts, key=_text) if key in _SETS else parts
    return schema(value) if is_object(value) else value


_text: Final[Callable[[Any], str]] = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
