"""A schema and the document it stands in go in; what its references lead to, and a hash of all of it, come out."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ..json_types import is_list, is_object
from .canonical import schema as canonical_schema

_HOPS = 20


def pointer(schema: Any) -> str:
    """Where the schema itself refers to; empty for nowhere."""
    found = schema.get("$ref") if is_object(schema) else None
    return found if isinstance(found, str) else ""


def target(step: str, root: Any) -> Any:
    """What a local reference leads to; None where it leads to nothing, or elsewhere."""
    if not step.startswith("#"):
        return None
    found = root
    for name in step[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if is_object(found):
            found = found.get(name)
        elif is_list(found) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def resolved(schema: Any, root: Any) -> Any:
    """The schema that a local reference leads to, with what stands beside the reference; references elsewhere stay."""
    for _ in range(_HOPS):
        found = target(pointer(schema), root)
        if not is_object(found):
            return schema
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def fingerprint(schema: Any, root: Any) -> str:
    """A hash of the schema and of all it refers to: the same wherever the definitions stand and whatever their names."""
    return str(_Fingerprints(root).of(schema))


class _Fingerprints:
    """Hashes from the inside out. Each definition is hashed once, so that those that use each other cost no more than
    their text; one inside itself is marked by how far out it began."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, str] = {}
        self._open: set[str] = set()

    def of(self, value: Any) -> Any:
        if is_list(value):
            return [self.of(each) for each in value]
        if not is_object(value):
            return value
        step = pointer(value)
        found = target(step, self._root)
        if not is_object(found):
            return self._hash(value)
        beside = {key: each for key, each in value.items() if key != "$ref"}
        if not beside:
            return self._definition(step, found)
        if step in self._open:
            return self._hash(beside)
        self._open.add(step)
        merged = self.of({**found, **beside})
        self._open.discard(step)
        return merged

    def _definition(self, step: str, found: Any) -> str:
        if step not in self._known:
            self._known[step] = f"in itself {len(self._known)}"
            self._known[step] = self.of(found)
        return self._known[step]

    def _hash(self, value: dict[str, Any]) -> str:
        parts = {key: self.of(each) for key, each in sorted(value.items()) if not _says_nothing(key, each)}
        text = json.dumps(canonical_schema(parts), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _says_nothing(key: str, value: Any) -> bool:
    return key in ("$defs", "definitions") or (key == "additionalProperties" and value in (True, {}))
