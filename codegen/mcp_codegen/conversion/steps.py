"""The way from one revision to its neighbour, as plain data: what happens to each value.

A plan says what happens to a value: None leaves it as it is, and a tuple begins with one of these words.

* `type`: as the plan of that name in `types`; `each`, `values`: every item of a list, every value of a map
* `tag`: by the value of a property; `arms`: as the first arm whose shape fits; `fit`: one plan if it fits, else another
* `drop`, `refuse`: with the rule that says so; `undo`: dropped, and a loss only if it is not what the way back gives
* `head`: so many items; `first`: the first item; `spread`: its holder once for each; `become`: made from a template
* `hollow`: dropped if nothing is left in it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Plan = tuple[Any, ...] | None


@dataclass
class Step:
    """The way from one revision to its neighbour. `methods` has the plans of params and results, by direction and
    method, the last result under no name and interim ones under that of their type, and what error codes become; `gone`
    who answers the methods that the target does not have; `rules` the reason of each rule."""

    source: str
    target: str
    methods: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict[str, "dict[str, dict[str, Any]]"])
    gone: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict[str, "dict[str, tuple[str, str]]"])
    types: dict[str, Any] = field(default_factory=dict[str, Any])
    records: dict[str, Any] = field(default_factory=dict[str, Any])
    rules: dict[str, str] = field(default_factory=dict[str, str])
