"""Random valid instances of a JSON Schema, and mutations of them that may be invalid."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..json_types import Json, is_list, is_object
from ..model.patterns import matching_text

_WORDS: Final = ("", "a", "text", "é😀", "https://example.com/x", "aGk=", "20250101T000000Z", "object", "form")
_NO_FIXED_VALUES: Final[Mapping[str, Json]] = {}


class InstanceGenerator:
    """Random instances of the definitions of one schema.

    `fixed` has the value of a definition, or of every property of that name; a namespace before the name is ignored.
    """

    def __init__(self, definitions: Mapping[str, Any], seed: int, fixed: Mapping[str, Json] = _NO_FIXED_VALUES) -> None:
        self._definitions = definitions
        self._fixed = fixed
        self._random = random.Random(seed)

    def valid(self, name: str) -> Json:
        """Return an instance of a definition."""
        return self._make(self._definitions[name], 0)

    def _make(self, schema: dict[str, Any], depth: int) -> Json:
        choose = self._random.choice
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return (
                copy.deepcopy(self._fixed[name]) if name in self._fixed else self._make(self._definitions[name], depth)
            )
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return choose(schema["enum"])
        if "anyOf" in schema:
            return self._make(choose(schema["anyOf"]), depth + 1)
        if "allOf" in schema:
            merged: dict[str, Json] = {}
            for part in schema["allOf"]:
                merged |= self._make(part, depth)
            return merged
        kind = schema.get("type")
        match choose(kind) if is_list(kind) else kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                least = schema.get("minItems", 0)
                size = (
                    least if depth > 6 else self._random.randint(least, max(least, min(3, schema.get("maxItems", 3))))
                )
                return [self._make(schema.get("items", {}), depth + 1) for _ in range(size)]
            case "string":
                return _fitted(choose(_WORDS), schema)
            case "integer":
                return self._random.randint(schema.get("minimum", -3), schema.get("maximum", 10**6))
            case "number":
                return choose([schema.get("minimum", -1.5), 0.5, 1])
            case "boolean":
                return choose([True, False])
            case "null":
                return None
            case _:
                return choose([None, 1, "any", {"k": [1]}, [], True])

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Json]:
        required = schema.get("required", [])
        instance: dict[str, Json] = {}
        for name, inner in schema.get("properties", {}).items():
            if name in required or self._random.random() < (0.5 if depth < 4 else 0.05):
                stem = name.rpartition("/")[2]
                instance[name] = self._fixed[stem] if stem in self._fixed else self._make(inner, depth + 1)
        if "additionalProperties" in schema and depth < 6 and self._random.random() < 0.5:
            additional = schema["additionalProperties"]
            instance[self._random.choice(["x", "com.example/key"])] = self._make(
                additional if is_object(additional) else {}, depth + 1
            )
        return instance

    def mutated(self, instance: Json) -> Json:
        """Return the instance with one change at a random place."""
        changed = copy.deepcopy({"root": instance})
        holder, key = self._random.choice(list(_places(changed)))
        value = holder[key]
        kinds = ["wrong", "null", "wrap"]
        if is_object(holder) and key != "root":
            kinds += ["drop", "drop"]
        if is_object(value):
            kinds += ["extra", "extra"]
        if isinstance(value, str):
            kinds += ["other", "number"]
        if type(value) is int:
            kinds += ["float", "fraction", "text", "bool"]
        if isinstance(value, bool):
            kinds += ["int", "text"]
        match self._random.choice(kinds):
            case "drop":
                del holder[key]
            case "extra":
                holder[key][self._random.choice(["unknown", "name", "type", "io.example/x"])] = self._random.choice(
                    [1, "x", None]
                )
            case kind:
                holder[key] = self._replacement(kind, value)
        return changed.get("root")

    def _replacement(self, kind: str, value: Json) -> Json:
        match kind:
            case "wrong":
                wrong: list[Json] = [[], {}, "x", 7, 1.5, True]
                return self._random.choice(wrong)
            case "null":
                return None
            case "wrap":
                return [value]
            case "other":
                return value + "!"
            case "number":
                return 5
            case "float":
                return float(value)
            case "fraction":
                return value + 0.5
            case "text":
                return str(value)
            case "bool":
                return bool(value)
            case _:
                return int(value)


def _fitted(word: str, schema: dict[str, Any]) -> str:
    """Return a word with the length and the form that a schema requires."""
    pattern = schema.get("pattern")
    if pattern is not None and re.search(pattern, word) is None:
        word = matching_text(pattern) or word
    return word[: schema.get("maxLength")].ljust(schema.get("minLength", 0), "x")


def _places(value: Json) -> Iterator[tuple[Any, Any]]:
    """Yield every place in an instance: the container, and the key or index in it."""
    keys: list[Any] = list(value) if is_object(value) else list(range(len(value)))
    for key in keys:
        yield value, key
        if is_object(value[key]) or is_list(value[key]):
            yield from _places(value[key])
