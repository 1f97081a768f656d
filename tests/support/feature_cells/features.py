"""A row of the table of features: what a peer does to use a feature, and what it must receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from support.feature_cells.cells import Cell, refused

Step = dict[str, Any]
Outcomes = list[dict[str, Any]]


@dataclass(frozen=True)
class Feature:
    """A feature, with the steps that use it and the check of what a peer receives.

    `needs` are what a client must be able to do; where it cannot, `without` checks what it receives instead.
    """

    item: int
    name: str
    steps: tuple[Step, ...]
    check: Callable[[Cell, Outcomes], None]
    needs: tuple[str, ...] = ()
    without: Callable[[Cell, Outcomes], None] = refused


FEATURES: Final[list[Feature]] = []


def feature(
    item: int,
    name: str,
    *steps: Step,
    needs: tuple[str, ...] = (),
    without: Callable[[Cell, Outcomes], None] = refused,
) -> Callable[[Callable[[Cell, Outcomes], None]], Callable[[Cell, Outcomes], None]]:
    """Return a decorator that adds a check as a row of the table."""

    def add(check: Callable[[Cell, Outcomes], None]) -> Callable[[Cell, Outcomes], None]:
        FEATURES.append(Feature(item, name, steps, check, needs, without))
        return check

    return add


def call(name: str, meta: dict[str, Any] | None = None, **arguments: Any) -> Step:
    """Return a step that calls a tool; `$cell` in an argument is the name of the cell."""
    return {"op": "call", "name": name, "arguments": arguments, "meta": meta}


def values(outcome: dict[str, Any]) -> Any:
    """Return the texts of a result of a tool."""
    return [content["text"] for content in outcome["result"]["content"]]


def listed(outcome: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the items of a list by name or URI."""
    items = outcome["result"]
    return {item.get(key) or item["uriTemplate"]: item for item in items}
