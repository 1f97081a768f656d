"""Conversion steps: the conversion from one revision to its neighbour, as plain data.

A plan is the conversion of one value. None leaves the value unchanged; a tuple begins with one of these operations:

* `type`: apply the plan with this name in `types`
* `items`, `values`: convert every item of a list, which may have to keep a number of items; every value of a map
* `tag`: choose the plan by the value of a property
* `one_of`: choose the plan of the first shape that the value matches
* `match`: apply one plan if the value matches a shape, else another plan
* `drop`, `refuse`: remove the value, or raise an error; both name their rule
* `drop_default`: remove the value; this is a loss only if it differs from the default that the reverse conversion adds
* `truncate`, `first`: use the first N items, the first item
* `flatten`: repeat the object that holds a list, once for each item
* `replace`: fill a template from the value
* `constant`: the value is another one, which means the same
* `drop_if_empty`: remove an object that has no properties after the conversion

The plan of an object has up to six parts, which apply in this order. `drop_misfits` removes properties that the source
does not define and whose values do not match the target's type. `fields` converts properties, and `rename` gives them
their names in the target. `add` adds properties: a `value`, a `copy` of another property, a value that is `provided`,
or an object that a plan can `make` of an empty one. `require` refuses objects without a property. `closed` removes
properties other than those that it lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

Plan = tuple[Any, ...] | None
PARTS: Final = ("fields", "rename", "add", "require", "drop_misfits", "closed")


@dataclass
class Step:
    """The conversion from one revision to its neighbour.

    `methods` has, by direction and method, the plans of the params and the results (the final result under the empty
    name, interim results under the name of their type), and the converted error codes. `removed_methods` states which
    side answers the methods that the target does not define. `renamed_methods` and `renamed_types` have the names in
    the target where they are others. `rules` has the reason of each rule.
    """

    source: str
    target: str
    methods: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict[str, "dict[str, dict[str, Any]]"])
    removed_methods: dict[str, dict[str, tuple[str, str]]] = field(
        default_factory=dict[str, "dict[str, tuple[str, str]]"]
    )
    renamed_methods: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])
    renamed_types: dict[str, str] = field(default_factory=dict[str, str])
    types: dict[str, Any] = field(default_factory=dict[str, Any])
    records: dict[str, Any] = field(default_factory=dict[str, Any])
    rules: dict[str, str] = field(default_factory=dict[str, str])
