"""The schemas inside a schema, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from mcp_products.json_schema.cost import NOTHING, pointed

from .snapshot import Json, is_list, is_object

ONE: Final = frozenset(
    "additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems "
    "unevaluatedProperties additionalItems".split()
)
MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
NAMED: Final = frozenset({"$defs", "definitions", "properties", "patternProperties", "dependentSchemas"})
MAX_DEPTH: Final = 200


class Node(NamedTuple):
    """A schema at a place. `key` is the keyword that it stands below, empty at the root; `argument` is True for the
    schema of a property."""

    schema: Json
    path: str
    key: str
    depth: int

    @property
    def root(self) -> bool:
        return not self.key


def nodes(schema: Json) -> Iterator[Node]:
    """Yield the schema and all schemas in it; what is deeper than MAX_DEPTH is left out."""
    waiting = [Node(schema, "", "", 0)]
    while waiting:
        node = waiting.pop()
        yield node
        if node.depth >= MAX_DEPTH:
            continue
        below: list[Node] = []
        for key, value in node.schema.items():
            if key in ONE and is_object(value):
                below.append(Node(value, f"{node.path}.{key}", key, node.depth + 1))
            elif key in MANY and is_list(value):
                below += _numbered(value, f"{node.path}.{key}", key, node.depth + 1)
            elif key in NAMED and is_object(value):
                below += _named(value, f"{node.path}.{key}", key, node.depth + 1)
        waiting += reversed(below)


def _numbered(values: list[Any], path: str, key: str, depth: int) -> list[Node]:
    return [Node(value, f"{path}.{number}", key, depth) for number, value in enumerate(values) if is_object(value)]


def _named(values: Json, path: str, key: str, depth: int) -> list[Node]:
    return [Node(value, f"{path}.{name}", key, depth) for name, value in values.items() if is_object(value)]


def bounded(value: Json) -> Json:
    """Return a value with nothing below MAX_DEPTH levels: messages come in any depth, and functions call themselves."""
    return _cut(value, 2 * MAX_DEPTH) if _is_deep(value) else value


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(2 * MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return True


def _children(value: object) -> list[Any]:
    return list(value.values()) if is_object(value) else value if is_list(value) else []


def _cut(value: Any, levels: int) -> Any:
    if is_object(value):
        return {key: _cut(item, levels - 1) for key, item in value.items()} if levels else {}
    if is_list(value):
        return [_cut(item, levels - 1) for item in value] if levels else []
    return value


def resolved(root: Json, reference: str) -> object:
    """Return what a reference inside the same document leads to; None if it leads nowhere."""
    if not reference.startswith("#"):
        return None
    value = pointed(root, reference)
    return None if value is NOTHING else value


def references(schema: Json) -> Iterator[str]:
    """Yield the references of a schema and of those in it."""
    return (ref for node in nodes(schema) if isinstance(ref := node.schema.get("$ref"), str))


def recursive(root: Json) -> str:
    """Return a reference to a schema that contains it; empty if there is none."""
    targets = dict.fromkeys(references(root))
    edges: dict[str, list[str]] = {}
    for ref in targets:
        target = resolved(root, ref)
        edges[ref] = list(dict.fromkeys(references(target))) if is_object(target) else []
    for start in targets:
        seen, waiting = set[str](), list(edges[start])
        while waiting:
            ref = waiting.pop()
            if ref == start:
                return start
            if ref not in seen:
                seen.add(ref)
                waiting += edges.get(ref, [])
    return ""
