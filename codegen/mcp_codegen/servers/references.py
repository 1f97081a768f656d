"""The local references of a schema, resolved in its document, and a hash of a schema with everything it refers to."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ..json_types import is_list, is_object
from .canonical import schema as canonical_schema

_MAX_REFERENCES = 20
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})


def pointer(schema: Any) -> str:
    """Return the reference of the schema itself, or an empty string."""
    reference = schema.get("$ref") if is_object(schema) else None
    return reference if isinstance(reference, str) else ""


def resolve_pointer(reference: str, root: Any) -> Any:
    """Return the value that a local reference points to; None if it is not local or points nowhere."""
    if not reference.startswith("#"):
        return None
    value = root
    for name in reference[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if is_object(value):
            value = value.get(name)
        elif is_list(value) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def resolve(schema: Any, root: Any) -> Any:
    """Return the schema that a local reference points to, with the keywords next to the reference. Other references
    are unchanged."""
    for _ in range(_MAX_REFERENCES):
        definition = resolve_pointer(pointer(schema), root)
        if not is_object(definition):
            return schema
        schema = {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def overrides(schema: Any, root: Any) -> str:
    """Return a hash of the definition that a reference points to, if keywords next to the reference are also in the
    definition and both hold; else an empty string."""
    definition = resolve_pointer(pointer(schema), root)
    if not is_object(definition) or not (definition.keys() & schema.keys()) - _ANNOTATIONS:
        return ""
    return fingerprint(definition, root)


def fingerprint(schema: Any, root: Any) -> str:
    """Return a hash of the schema and everything it refers to. The place and the names of definitions do not matter."""
    return str(_Fingerprints(root).of(schema))


class _Fingerprints:
    """The hashes of one document, from the inside out. Each definition is hashed once, so that the cost is linear in
    the size of the text. A recursive definition is marked by its position in the nesting."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._hashes: dict[str, str] = {}
        self._open: set[str] = set()

    def of(self, value: Any) -> Any:
        if is_list(value):
            return [self.of(item) for item in value]
        if not is_object(value):
            return value
        reference = pointer(value)
        definition = resolve_pointer(reference, self._root)
        if not is_object(definition):
            return self._hash(value)
        siblings = {key: part for key, part in value.items() if key != "$ref"}
        if not siblings:
            return self._definition(reference, definition)
        if reference in self._open:
            return self._hash(siblings)
        self._open.add(reference)
        merged = self.of({**definition, **siblings})
        self._open.discard(reference)
        return merged

    def _definition(self, reference: str, definition: Any) -> str:
        if reference not in self._hashes:
            self._hashes[reference] = f"recursive {len(self._hashes)}"
            self._hashes[reference] = self.of(definition)
        return self._hashes[reference]

    def _hash(self, value: dict[str, Any]) -> str:
        parts = {key: self.of(part) for key, part in sorted(value.items()) if not _is_ignored(key, part)}
        text = json.dumps(canonical_schema(parts), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _is_ignored(key: str, value: Any) -> bool:
    """Return True for a keyword without effect on the allowed values."""
    return key in ("$defs", "definitions") or (key == "additionalProperties" and value in (True, {}))
