"""The references of normalized definitions, and the schemas of records and tuples, which may refer to others."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ..errors import is_list, is_object
from .syntax import DOC

Schema = dict[str, Any]
REF: Final = "#/$defs/"


def references(schema: Schema) -> set[str]:
    """Return the names of the definitions that a schema refers to, at any place."""
    return {str(part.get("$ref", "")).removeprefix(REF) for part in objects(schema)}


def objects(schema: Schema) -> Iterator[Schema]:
    """Yield the objects in a schema, itself included."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if is_object(part):
            yield part
            waiting.extend(part.values())
        elif is_list(part):
            waiting.extend(part)


def alias_targets(schema: Schema) -> set[str]:
    """Return the names of the definitions that a schema stands for, by itself or in a union or an intersection."""
    names: set[str] = set()
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        names.add(part.get("$ref", "").removeprefix(REF))
        waiting += [*part.get("anyOf", ()), *part.get("allOf", ())]
    return names


def circular(graph: Mapping[str, set[str]]) -> set[str]:
    """Return the names that lead to themselves, directly or through others. A name that is not a key leads nowhere.

    They are in the strongly connected components, by Kosaraju's algorithm, whose steps are as many as the edges.
    """
    targets = {name: names & graph.keys() for name, names in graph.items()}
    sources: dict[str, set[str]] = {name: set() for name in graph}
    for name, names in targets.items():
        for target in names:
            sources[target].add(name)
    visited: set[str] = set()
    finished = [name for root in graph for name in _reached(root, targets, visited)]
    visited.clear()
    components = [[*_reached(root, sources, visited)] for root in reversed(finished)]
    in_others = {name for component in components if len(component) > 1 for name in component}
    return in_others | {name for name, names in targets.items() if name in names}


def _reached(root: str, graph: Mapping[str, set[str]], visited: set[str]) -> Iterator[str]:
    """Yield the names that a root leads to, itself included, which were not visited: each after those it leads to."""
    path: list[tuple[str, Iterator[str]]] = [("", iter((root,)))]
    while path:
        target = next((name for name in path[-1][1] if name not in visited), None)
        if target is not None:
            visited.add(target)
            path.append((target, iter(graph[target])))
        elif len(path) > 1:
            yield path.pop()[0]
        else:
            return


# The normalized schemas of records and tuples, from those of their values.


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


def schema_text(schema: Schema) -> str:
    """Return the text of the schema.json file of a normalized schema."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def without_texts(schema: Any, but: Collection[str] = ()) -> Any:
    """Return a normalized schema without the texts of the specification, but those."""
    if is_object(schema):
        kept = {key: value for key, value in schema.items() if key != DOC or is_object(value) or value in but}
        return {key: without_texts(value, but) for key, value in kept.items()}
    return [without_texts(item, but) for item in schema] if is_list(schema) else schema
