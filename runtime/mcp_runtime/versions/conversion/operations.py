"""A plan of a generated step goes in, the function that does it to a JSON value comes out; values are never changed
in place, and one that needs no change is handed on as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...errors import ConversionError
from ...protocol.models import is_list, is_object
from .predicates import Fits, predicate_for
from .report import ConversionReport, Path, format_path, record_loss

REMOVED: Final = object()
"""What a property or an item becomes that is not there any more."""


@dataclass(slots=True)
class ConversionContext:
    """One conversion: what it may be given, and where it says what it loses."""

    provided: Mapping[str, Any]
    report: ConversionReport | None


Change = Callable[[Any, Path, ConversionContext], Any]


class Operations:
    """All plans of one step; each is made a function when it is first needed. `step` is what the generator wrote."""

    def __init__(self, step: Mapping[str, Any]) -> None:
        self.step = step
        self._types: dict[str, Change] = {}

    def change(self, plan: Any) -> Change | None:
        """What this plan does; None where it leaves every value as it is."""
        if plan is None:
            return None
        word, *rest = plan
        return _OPERATIONS[word](self, *rest)

    def type(self, name: str) -> Change:
        """What is done to an object of this type."""
        if name not in self._types:
            # A type may hold others of its kind: inside itself, it is looked up when it is met.
            self._types[name] = lambda value, path, walk: self._types[name](value, path, walk)
            self._types[name] = self._object(self.step["types"][name])
        return self._types[name]

    def refuse(self, rule: str, path: Path) -> ConversionError:
        where = format_path(path)
        return ConversionError(
            f"{self.step['source']} → {self.step['target']}: {where + ': ' if where else ''}"
            f"{rule}: {self.step['rules'][rule]}"
        )

    def drop_with_report(self, rule: str, path: Path, context: ConversionContext, what: Any) -> None:
        record_loss(context.report, path, rule, self.step["rules"][rule], what)

    def fits(self, shape: Any) -> Fits:
        return predicate_for(shape, self.step["records"])

    def _object(self, plan: Mapping[str, Mapping[str, Any]]) -> Change:
        spare = [(wire, self.fits(shape), rule) for wire, (shape, rule) in plan.get("drop_misfits", {}).items()]
        adds = [(wire, self._adding(how, what)) for wire, (how, what) in plan.get("add", {}).items()]
        needs = list(plan.get("require", {}).items())
        each_field = [(wire, self.change(each)) for wire, each in plan.get("fields", {}).items()]
        fields = [(wire, done) for wire, done in each_field if done is not None]
        # Most objects have nothing that changes, and are found out by their keys alone.
        always = bool(adds or needs)
        touched = frozenset(wire for wire, *_ in (*spare, *fields))

        def change(value: Any, path: Path, walk: ConversionContext) -> Any:
            if not is_object(value) or (not always and touched.isdisjoint(value)):
                return value
            before = made = value  # Until something changes.
            for wire, fits, rule in spare:
                if wire in before and not fits(before[wire]):
                    made = dict(before) if made is before else made
                    self.drop_with_report(rule, (path, wire), walk, made.pop(wire))
            for wire, added in adds:
                if wire not in made:
                    made = dict(before) if made is before else made
                    made[wire] = added(before, walk)
            for wire, rule in needs:
                if wire not in made:
                    raise self.refuse(rule, path)
            for wire, each in fields:
                if wire in made and (after := each(value := made[wire], (path, wire), walk)) is not value:
                    made = dict(before) if made is before else made
                    made[wire] = after
                    if after is REMOVED:
                        del made[wire]
            return made

        return change

    def _adding(self, how: str, what: Any) -> Callable[[dict[str, Any], ConversionContext], Any]:
        match how:
            case "copy":
                return lambda value, walk: value.get(what)
            case "provided" if what == "revision":
                return lambda value, walk: self.step["target"]
            case "provided":
                return lambda value, walk: walk.provided.get(what, {})
            case _ if is_object(what):
                return lambda value, walk: dict(what)
            case _:
                return lambda value, walk: what


# ---- what the words of a plan mean ----------------------------------------------------------------------------------


def _items(plans: Operations, inner: Any) -> Change | None:
    done = plans.change(inner)
    if done is None:
        return None

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        if not is_list(value):
            return value
        made = value  # Until something changes.
        for number, item in enumerate(value):
            after = done(item, (path, number), walk)
            if after is not item and made is value:
                made = value[:number]
            if made is not value and after is not REMOVED:
                made.append(after)
        return made

    return change


def _values(plans: Operations, inner: Any) -> Change:
    done = plans.change(inner)

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        if done is None or not is_object(value):
            return value
        made = {key: done(item, (path, key), walk) for key, item in value.items()}
        return {key: item for key, item in made.items() if item is not REMOVED}

    return change


def _tag(plans: Operations, wire: str, known: Mapping[Any, Any]) -> Change:
    by_value = {value: plans.change(plan) for value, plan in known.items()}

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        done = by_value.get(value.get(wire)) if is_object(value) else None
        return value if done is None else done(value, path, walk)

    return change


def _one_of(plans: Operations, arms: Any) -> Change:
    tried = [(plans.fits(shape), plans.change(plan)) for shape, plan in arms]

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        done = next((done for fits, done in tried if fits(value)), None)
        return value if done is None else done(value, path, walk)

    return change


def _match(plans: Operations, shape: Any, inner: Any, otherwise: Any) -> Change:
    fits, done, other = plans.fits(shape), plans.change(inner), plans.change(otherwise)

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        chosen = done if fits(value) else other
        return value if chosen is None else chosen(value, path, walk)

    return change


def _drop(plans: Operations, rule: str) -> Change:
    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        plans.drop_with_report(rule, path, walk, value)
        return REMOVED

    return change


def _drop_default(plans: Operations, default: Any, rule: str, report: bool) -> Change:
    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        if report and value != default:
            plans.drop_with_report(rule, path, walk, value)
        return REMOVED

    return change


def _refuse(plans: Operations, rule: str) -> Change:
    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        raise plans.refuse(rule, path)

    return change


def _truncate(plans: Operations, max_items: int, inner: Any, rule: str) -> Change:
    done = plans.change(inner)

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        if is_list(value) and len(value) > max_items:
            plans.drop_with_report(rule, path, walk, value[max_items:])
            value = value[:max_items]
        return value if done is None else done(value, path, walk)

    return change


def _first(plans: Operations, inner: Any, rule: str) -> Change:
    done = plans.change(inner)

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        if not value:
            raise plans.refuse(rule, path)
        if len(value) > 1:
            plans.drop_with_report(rule, path, walk, value[1:])
        return value[0] if done is None else done(value[0], (path, 0), walk)

    return change


def _flatten(plans: Operations, wire: str, inner: Any, rule: str) -> Change:
    done = plans.change(inner)

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        made: list[Any] = []
        for number, item in enumerate(value):
            several = item.get(wire) if is_object(item) else None
            if is_list(several):
                plans.drop_with_report(rule, ((path, number), wire), walk, several)
                made += [{**item, wire: one} for one in several]
            else:
                made.append(item)
        return made if done is None else done(made, path, walk)

    return change


def _replace(plans: Operations, template: Any, inner: Any, rule: str) -> Change:
    done = plans.change(inner)

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        plans.drop_with_report(rule, path, walk, value)
        made = _fill_template(template, value)
        return made if done is None else done(made, path, walk)

    return change


def _drop_if_empty(plans: Operations, inner: Any) -> Change:
    done = plans.change(inner)

    def change(value: Any, path: Path, walk: ConversionContext) -> Any:
        after = value if done is None else done(value, path, walk)
        return REMOVED if after == {} else after

    return change


def _fill_template(template: Any, value: Mapping[str, Any]) -> Any:
    """The template with what it takes from a value: `=name` is its property, `=names[].first` one of each item of a
    list, `{name}` its text. What is not there is left out."""
    if is_object(template):
        made = {key: _fill_template(each, value) for key, each in template.items()}
        return {key: each for key, each in made.items() if each is not REMOVED}
    if not isinstance(template, str):
        return template
    if not template.startswith("="):
        return template.format_map(value)
    wire, is_each, inner = template[1:].partition("[].")
    found = value.get(wire, REMOVED)
    return [item[inner] for item in found] if is_each and is_list(found) else found


_OPERATIONS: Final[Mapping[str, Callable[..., Change | None]]] = {
    "type": Operations.type,
    "items": _items,
    "values": _values,
    "tag": _tag,
    "one_of": _one_of,
    "match": _match,
    "drop": _drop,
    "drop_default": _drop_default,
    "refuse": _refuse,
    "truncate": _truncate,
    "first": _first,
    "flatten": _flatten,
    "replace": _replace,
    "drop_if_empty": _drop_if_empty,
}
