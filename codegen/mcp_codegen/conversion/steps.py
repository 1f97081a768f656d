"""Conversion steps: the conversion from one revision to its neighbour, as plain data.

A plan is the conversion of one value. None leaves the value unchanged; a tuple begins with one of these operations:

* `type`: apply the plan with this name in `types`
* `items`, `values`: convert every item of a list, every value of a map
* `tag`: choose the plan by the value of a property
* `one_of`: choose the plan of the first shape that the value matches
* `match`: apply one plan if the value matches a shape, else another plan
* `drop`, `refuse`: remove the value, or raise an error; both name their rule
* `drop_default`: remove the value; this is a loss only if it differs from the default that the reverse conversion adds
* `truncate`, `first`: use the first N items, the first item
* `flatten`: repeat the object that holds a list, once for each item
* `replace`: fill a template from the value
* `drop_if_empty`: remove an object that has no properties after the conversion

The plan of an object has up to four parts: `fields` converts properties, `add` adds properties, `require` refuses
objects without a property, and `drop_misfits` removes properties whose values do not match the target's type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Plan = tuple[Any, ...] | None


@dataclass
class Step:
    """The conversion from one revision to its neighbour.

    `methods` has, by direction and method, the plans of the params and the results (the final result under the empty
    name, interim results under the name of their type), and the converted error codes. `removed_methods` states which
    side answers the methods that the target does not define. `rules` has the reason of each rule.
    """

    source: str
    target: str
    methods: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict[str, "dict[str, dict[str, Any]]"])
    removed_methods: dict[str, dict[str, tuple[str, str]]] = field(
        default_factory=dict[str, "dict[str, tuple[str, str]]"]
    )
    types: dict[str, Any] = field(default_factory=dict[str, Any])
    records: dict[str, Any] = field(default_factory=dict[str, Any])
    rules: dict[str, str] = field(default_factory=dict[str, str])
