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
from typing import Any, Final, cast

from ..errors import is_object

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


# The removal of plans that change no value from a conversion step.


def simplify(step: Step) -> None:
    """Remove the plans without effect. A type that refers to itself is unchanged if nothing else in it changes."""
    unchanged = set(step.types)
    while changed := {name for name in unchanged if not _is_idle(step.types[name], unchanged)}:
        unchanged -= changed
    step.types = {name: _type(plan, unchanged) for name, plan in step.types.items() if name not in unchanged}
    for direction, methods in step.methods.items():
        plans = {method: _method(plan, unchanged) for method, plan in methods.items()}
        step.methods[direction] = {method: plan for method, plan in plans.items() if plan}
    _only_used(step)


def _is_idle(plan: dict[str, Any], unchanged: set[str]) -> bool:
    fields = _plans(plan["fields"], unchanged)
    return not any(fields.values()) and not any(plan[part] for part in PARTS if part != "fields")


def _type(plan: dict[str, Any], unchanged: set[str]) -> dict[str, Any]:
    """Return the parts of an object's plan that are not empty."""
    fields = {wire: inner for wire, inner in _plans(plan["fields"], unchanged).items() if inner is not None}
    added = {wire: _added(content[0], content[1], unchanged) for wire, content in plan["add"].items()}
    return {part: content for part, content in {**plan, "fields": fields, "add": added}.items() if content}


def _added(kind: str, content: Any, unchanged: set[str]) -> tuple[str, Any]:
    """Return what is added for a property: an object that nothing has to be done for is empty."""
    plan = _plan(content, unchanged) if kind == "make" else None
    return ("value", {}) if kind == "make" and plan is None else (kind, content)


def _method(plan: dict[str, Any], unchanged: set[str]) -> dict[str, Any]:
    params = _plan(plan["params"], unchanged)
    results = {name: inner for name, inner in _plans(plan["results"], unchanged).items() if inner is not None}
    parts = {"params": params, "results": results, "errors": plan["errors"]}
    return {part: content for part, content in parts.items() if content}


def _plans(plans: dict[Any, Any], unchanged: set[str]) -> dict[Any, Any]:
    return {key: _plan(plan, unchanged) for key, plan in plans.items()}


def _plan(plan: Plan, unchanged: set[str]) -> Plan:
    match plan:
        case ("type", name):
            return None if name in unchanged else plan
        case ("items" | "values" as word, inner, *least):
            inner_plan = _plan(inner, unchanged)
            return None if inner_plan is None else (word, inner_plan, *least)
        case ("tag", wire, plans):
            changed = {
                value: inner_plan
                for value, inner in plans.items()
                if (inner_plan := _plan(inner, unchanged)) is not None
            }
            return ("tag", wire, changed) if changed else None
        case ("one_of", arms):
            simplified = tuple((shape, _plan(inner, unchanged)) for shape, inner in arms)
            return ("one_of", simplified) if any(inner is not None for _, inner in simplified) else None
        case ("match", shape, inner, otherwise):
            return ("match", shape, _plan(inner, unchanged), _plan(otherwise, unchanged))
        case ("flatten" | "truncate" | "replace" as word, argument, inner, rule):
            return (word, argument, _plan(inner, unchanged), rule)
        case ("first", inner, rule):
            return ("first", _plan(inner, unchanged), rule)
        case ("drop_if_empty", inner):
            return ("drop_if_empty", _plan(inner, unchanged))
        case _:
            return plan


def _only_used(step: Step) -> None:
    """Remove the records and the reasons that no plan refers to."""
    used: set[str] = set()
    _strings((step.methods, step.removed_methods, step.types), used)
    waiting = [name for name in step.records if name in used]
    reachable: dict[str, Any] = {}
    while waiting:
        name = waiting.pop()
        if name not in reachable:
            reachable[name] = step.records[name]
            inner: set[str] = set()
            _strings(step.records[name], inner)
            waiting += [record for record in step.records if record in inner]
    step.records = {name: step.records[name] for name in step.records if name in reachable}
    step.rules = {rule: reason for rule, reason in step.rules.items() if rule in used}


def _strings(part: Any, strings: set[str]) -> None:
    if isinstance(part, str):
        strings.add(part)
    elif is_object(part):
        for key, value in part.items():
            _strings(key, strings)
            _strings(value, strings)
    elif isinstance(part, (list, tuple)):
        for value in cast("list[Any]", part):
            _strings(value, strings)
