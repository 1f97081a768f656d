"""The references of normalized definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..json_types import is_list, is_object

Schema = dict[str, Any]
REF: Final = "#/$defs/"


def contains_itself(name: str, definitions: Schema, follows: Callable[[Schema], bool] = bool) -> bool:
    """Return True for a definition that refers to itself, directly or through others that `follows` allows."""
    reached: set[str] = set()
    waiting: list[Any] = [definitions[name]]
    while waiting:
        part = waiting.pop()
        if is_object(part):
            target = str(part.get("$ref", "")).removeprefix(REF)
            if target in definitions and target not in reached:
                reached.add(target)
                waiting += [definitions[target]] if follows(definitions[target]) else []
            waiting.extend(part.values())
        elif is_list(part):
            waiting.extend(part)
    return name in reached
