"""A step goes in and is left with what it changes: plans that leave every value as it is are taken out."""

from __future__ import annotations

from typing import Any, cast

from ..json_types import is_object
from .steps import Plan, Step


def simplify(step: Step) -> None:
    """Take out what changes nothing. A type that refers to itself is unchanged if nothing else in it changes."""
    unchanged = set(step.types)
    while changed := {name for name in unchanged if not _is_idle(step.types[name], unchanged)}:
        unchanged -= changed
    step.types = {name: _type(plan, unchanged) for name, plan in step.types.items() if name not in unchanged}
    for direction, methods in step.methods.items():
        plans = {method: _method(plan, unchanged) for method, plan in methods.items()}
        step.methods[direction] = {method: plan for method, plan in plans.items() if plan}
    _only_used(step)


def _is_idle(plan: dict[str, Any], unchanged: set[str]) -> bool:
    fields = _each(plan["fields"], unchanged)
    return not (plan["add"] or plan["require"] or plan["drop_misfits"] or any(fields.values()))


def _type(plan: dict[str, Any], unchanged: set[str]) -> dict[str, Any]:
    """What an object's plan has to say: of its parts those that say something."""
    fields = {wire: inner for wire, inner in _each(plan["fields"], unchanged).items() if inner is not None}
    return {part: said for part, said in {**plan, "fields": fields}.items() if said}


def _method(plan: dict[str, Any], unchanged: set[str]) -> dict[str, Any]:
    params = _plan(plan["params"], unchanged)
    results = {name: inner for name, inner in _each(plan["results"], unchanged).items() if inner is not None}
    said = {"params": params, "results": results, "errors": plan["errors"]}
    return {part: each for part, each in said.items() if each}


def _each(plans: dict[Any, Any], unchanged: set[str]) -> dict[Any, Any]:
    return {key: _plan(plan, unchanged) for key, plan in plans.items()}


def _plan(plan: Plan, unchanged: set[str]) -> Plan:
    match plan:
        case ("type", name):
            return None if name in unchanged else plan
        case ("items" | "values" as word, inner):
            done = _plan(inner, unchanged)
            return None if done is None else (word, done)
        case ("tag", wire, known):
            some = {value: done for value, inner in known.items() if (done := _plan(inner, unchanged)) is not None}
            return ("tag", wire, some) if some else None
        case ("one_of", arms):
            every = tuple((shape, _plan(inner, unchanged)) for shape, inner in arms)
            return ("one_of", every) if any(inner is not None for _, inner in every) else None
        case ("match", shape, inner, otherwise):
            return ("match", shape, _plan(inner, unchanged), otherwise)
        case ("flatten" | "truncate" | "replace" as word, what, inner, rule):
            return (word, what, _plan(inner, unchanged), rule)
        case ("first", inner, rule):
            return ("first", _plan(inner, unchanged), rule)
        case ("drop_if_empty", inner):
            return ("drop_if_empty", _plan(inner, unchanged))
        case _:
            return plan


def _only_used(step: Step) -> None:
    """Leave out the records and the reasons that no plan refers to."""
    said: set[str] = set()
    _strings((step.methods, step.removed_methods, step.types), said)
    waiting = [name for name in step.records if name in said]
    kept: dict[str, Any] = {}
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = step.records[name]
            inner: set[str] = set()
            _strings(step.records[name], inner)
            waiting += [each for each in step.records if each in inner]
    step.records = {name: step.records[name] for name in step.records if name in kept}
    step.rules = {rule: reason for rule, reason in step.rules.items() if rule in said}


def _strings(part: Any, found: set[str]) -> None:
    if isinstance(part, str):
        found.add(part)
    elif is_object(part):
        for key, value in part.items():
            _strings(key, found)
            _strings(value, found)
    elif isinstance(part, (list, tuple)):
        for value in cast("list[Any]", part):
            _strings(value, found)
