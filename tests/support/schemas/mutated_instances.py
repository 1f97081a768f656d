"""Random instances of a schema, and mutations of them that may be invalid."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from mcp_codegen.errors import Json, is_list, is_object
from mcp_codegen.testkit.messages import InstanceGenerator


class MutatingGenerator(InstanceGenerator):
    """A generator that changes its instances as well."""

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


def _places(value: Json) -> Iterator[tuple[Any, Any]]:
    """Yield every place in an instance: the container, and the key or index in it."""
    keys: list[Any] = list(value) if is_object(value) else list(range(len(value)))
    for key in keys:
        yield value, key
        if is_object(value[key]) or is_list(value[key]):
            yield from _places(value[key])
