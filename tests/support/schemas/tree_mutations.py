"""Parsed JSON and a seed go in, JSON with a few changed places comes out."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from support.schemas.awkward import HOSTILE, NAMES, SIMPLE

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, float("inf"), float("nan"), 10**30, "", "x", [], {}, [[]], [None], [{}]),
    *(
        {"$ref": "#"},
        {"$ref": "#/$defs/Nowhere"},
        {"$ref": 3},
        {"not": {}},
        {"oneOf": []},
        {"anyOf": [True]},
        {"allOf": 3},
    ),
    *({"type": []}, {"type": {}}, {"type": "nothing"}, {"enum": {}}, {"const": {"a": [1]}}, {"pattern": "("}),
    *({"properties": []}, {"required": "a"}, {"items": [True, False]}, {"if": {}, "then": 3}),
)
_KEYS = (
    *("type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "enum", "const", "default", "$ref"),
    *("$defs", "additionalProperties", "patternProperties", "format", "pattern", "minimum", "minItems", "prefixItems"),
    *("description", "title", "name", "inputSchema", "outputSchema", "annotations", "deprecated", "x-extends"),
)


def changed_tree(value: Any, seed: int) -> Any:
    """Return a copy with one to four places removed, replaced, renamed, doubled, or exchanged with another place."""
    random = Random(seed)
    tree = deepcopy(value)
    for _ in range(random.randint(1, 4)):
        places = _places(tree)
        if not places:
            break
        _change(random, tree, places)
    return tree


def _change(random: Random, tree: Any, places: list[tuple[Any, Any]]) -> None:
    holder, key = random.choice(places)
    match random.randrange(6):
        case 0:
            del holder[key]
        case 1:
            holder[key] = deepcopy(random.choice((*_VALUES, *SIMPLE)))
        case 2:
            holder[key] = random.choice((*NAMES, *HOSTILE))
        case 3 if isinstance(holder, dict):
            holder[random.choice((*_KEYS, *NAMES))] = holder.pop(key)
        case 4:
            other, place = random.choice(places)
            holder[key], other[place] = deepcopy(other[place]), deepcopy(holder[key])
        case _:
            holder[key] = [deepcopy(holder[key])] if random.random() < 0.5 else {random.choice(_KEYS): holder[key]}


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return the holder and the key of each value in a tree."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        places += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys]
    return places
