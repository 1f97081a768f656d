"""The types of a revision go in, the smallest valid JSON value of each comes out."""

from __future__ import annotations

import re
from typing import Any

from mcp_codegen.model.ir import Alias, Array, Map, Plain, Ref, Revision, Type, Union, Values

TEXTS = ("text", "https://example.org/", "file:///text")


def sample(written: Type, revision: Revision, property: str = "") -> Any:
    """What is required, and nothing else; a text is a URI where the name of its property says so."""
    match written:
        case Ref(name):
            definition = revision.types[name]
            if isinstance(definition, Alias):
                return sample(definition.type, revision, property)
            needed = [field for field in definition.fields if field.required]
            return {
                field.wire: sample(field.type, revision, field.wire) if field.constant is None else field.constant
                for field in needed
            }
        case Plain(kind):
            return _plain(kind, written, property)
        case Values(values):
            return values[0]
        case Array(items, _, least):
            return [sample(items, revision) for _ in range(least or 0)]
        case Map():
            return {}
        case Union(arms):
            return sample(arms[0], revision, property)


def _plain(kind: str, plain: Plain, property: str) -> Any:
    if kind == "string":
        texts = TEXTS[1:] if property.lower().endswith(("uri", "url")) else TEXTS
        fitting = [text for text in texts if plain.pattern is None or re.search(plain.pattern, text)]
        return fitting[0][: plain.max_length].ljust(plain.min_length or 0, "x")
    numbers = {"integer": 1, "number": 1}
    return (
        max(numbers[kind], plain.minimum or 0) if kind in numbers else {"boolean": True, "null": None, "any": {}}[kind]
    )
