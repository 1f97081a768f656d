"""An item of a contract goes in, its canonical form and hash come out: the same for every way to write the same thing.

The order of keys, of what JSON Schema treats as a set, and white space in prose make no difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from ..json_types import is_list, is_object
from .contract import Json

_PROSE: Final = frozenset({"description", "title", "$comment"})
_SETS: Final = frozenset({"required", "enum", "type", "anyOf", "oneOf", "allOf", "examples"})
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema"})
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_AS_IT_IS: Final = frozenset({"default", "const"})


def canonical(item: Json) -> Json:
    """A tool, prompt or resource template in its canonical form, without its `_meta`."""
    return {key: _part(key, value) for key, value in sorted(item.items()) if key not in ("_meta", "icons")}


def digest(item: Json) -> str:
    """The sha256 of the canonical form of an item, in hexadecimal."""
    return hashlib.sha256(_text(canonical(item)).encode()).hexdigest()


def _part(key: str, value: Any) -> Any:
    if key in _SCHEMAS:
        return schema(value)
    if key in _PROSE and isinstance(value, str):
        return " ".join(value.split())
    if key == "arguments" and is_list(value):
        return sorted((canonical(each) if is_object(each) else each for each in value), key=_text)
    return value


def schema(value: Any) -> Any:
    """A JSON Schema in its canonical form."""
    if not is_object(value):
        return value
    return {key: _keyword(key, each) for key, each in sorted(value.items())}


def _keyword(key: str, value: Any) -> Any:
    if key in _AS_IT_IS:
        return value
    if key in _PROSE and isinstance(value, str):
        return " ".join(value.split())
    if key in _BY_NAME and is_object(value):
        return {name: schema(each) for name, each in sorted(value.items())}
    if is_list(value):
        parts = [schema(each) for each in value] if key not in ("enum", "examples") else value
        return sorted(parts, key=_text) if key in _SETS else parts
    return schema(value) if is_object(value) else value


_text: Final[Callable[[Any], str]] = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
