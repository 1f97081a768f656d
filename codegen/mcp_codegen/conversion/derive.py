"""Two neighbouring revisions and conversions.toml go in; the step from one to the other comes out, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..model.ir import (
    Array,
    Field,
    Map,
    Method,
    Object,
    Plain,
    Ref,
    Revision,
    Type,
    Values,
)
from .error_codes import converted_error_codes
from .rules import ConversionRule, Conversions
from .shapes import Shapes, required_by
from .simplify import simplify
from .steps import Plan, Step

_DECLARED: Final = ("ClientCapabilities", "ServerCapabilities")
_BASES: Final = {"request": "Request", "notification": "Notification"}


def derive_step(source: Revision, target: Revision, conversions: Conversions) -> Step:
    """The step between two neighbours, in this direction."""
    return _StepBuilder(source, target, conversions).step()


class _StepBuilder:
    def __init__(self, source: Revision, target: Revision, rows: Conversions) -> None:
        self._step = Step(source.id, target.id)
        self._source = Shapes(source, self._step.records)
        self._target = Shapes(target, self._step.records)
        self._rows = rows

    def step(self) -> Step:
        theirs = {(row.direction, row.method): row for row in self._target.revision.methods}
        for row in self._source.revision.methods:
            other = theirs.get((row.direction, row.method))
            if other is None:
                self._step.removed_methods.setdefault(row.direction, {})[row.method] = self._removed(row)
            else:
                self._step.methods.setdefault(row.direction, {})[row.method] = self._method(row, other)
        for name in _DECLARED:
            mine, other_type = (side.object(Ref(name)) if name in side.revision.types else None for side in self._sides)
            if mine is not None and other_type is not None:
                self._pair(mine, other_type)
        simplify(self._step)
        return self._step

    @property
    def _sides(self) -> tuple[Shapes, Shapes]:
        return self._source, self._target

    # ---- methods ----------------------------------------------------------------------------------------------------

    def _removed(self, row: Method) -> tuple[str, str]:
        said = self._rows.find("method", row.method)
        answer = "ignore" if row.kind == "notification" else "refuse"
        reason = said.reason if said is not None else f"{self._step.target} does not define this method."
        return (str(said.text["answer"]) if said is not None else answer), self._rule("method", row.method, reason)

    def _method(self, row: Method, other: Method) -> dict[str, Any]:
        params: Plan = None
        if row.params is not None and other.params is not None:
            mine, theirs = self._params(self._source, row), self._params(self._target, other)
            if mine is not None and theirs is not None:
                params = ("type", self._pair(mine, theirs))
            else:
                params = self._plan(Ref(row.params), Ref(other.params), row.type, "params")
        results: dict[str, Plan] = {}
        if row.result is not None and other.result is not None:
            results[""] = self._plan(Ref(row.result), Ref(other.result), row.type, "result")
        known = {interim.type for interim in other.interim}
        for interim in row.interim:
            if interim.type in known:
                results[interim.type] = self._plan(Ref(interim.type), Ref(interim.type), row.type, "result")
            else:
                results[interim.type] = self._refusal(interim.type, f"{self._step.target} does not define this result type.")
        errors = converted_error_codes(self._source.revision, self._target.revision, row.method, self._rows)
        return {"params": params, "results": results, "errors": errors}

    def _params(self, side: Shapes, row: Method) -> Object | None:
        """The params of a message; where their own type does not say it, they have what the base message's have."""
        assert row.params is not None
        each = side.object(side.resolved(Ref(row.params)))
        base = side.revision.types.get(_BASES.get(row.kind, ""))
        inherited = base.field("params") if isinstance(base, Object) else None
        more = side.object(side.resolved(inherited.type)) if inherited is not None else None
        if each is None or more is None:
            return each
        fields = tuple(field for field in more.fields if each.field(field.wire) is None)
        return Object(each.name, (*each.fields, *fields)) if fields else each

    # ---- types ------------------------------------------------------------------------------------------------------

    def _plan(self, mine: Type, theirs: Type, holder: str, wire: str) -> Plan:
        """What makes a value of one type a value of the other; `holder` and `wire` say where it stands."""
        source, target = self._source.resolved(mine), self._target.resolved(theirs)
        if self._target.is_any(target):
            return None
        if self._source.is_any(source):
            return self._fitting(target, None, holder, wire)
        arms, others = self._source.arms(source), self._target.arms(target)
        if len(arms) > 1 or len(others) > 1:
            return self._union(arms, others, holder, wire)
        one, other = self._source.object(source), self._target.object(target)
        if other is not None and (one is not None or isinstance(source, Map)):
            plan: Plan = ("type", self._pair(one, other))
            return self._fitting(target, plan, holder, wire) if self._rows.has("drop", holder, wire) else plan
        return self._plain(source, target, holder, wire)

    def _plain(self, source: Type, target: Type, holder: str, wire: str) -> Plan:
        match source, target:
            case (Array(items), Array(wanted, most)):
                return self._array(items, wanted, source.max_items, most, holder, wire)
            case (Map(values), Map(wanted)):
                return ("values", self._plan(values, wanted, holder, wire))
            case (Ref(), Map(wanted)) if self._target.is_any(wanted):
                return None
            case (Values(values), Values(wanted)) if set(values) <= set(wanted):
                return None
            case (Values(values), Plain("string")) if all(isinstance(value, str) for value in values):
                return None
            case (Plain(), Plain()) if self._is_within(source, target):
                return None
            case _:
                return self._fitting(target, None, holder, wire)

    def _is_within(self, source: Plain, target: Plain) -> bool:
        kinds = (source.kind, target.kind)
        bounds = (target.minimum, target.maximum) in ((None, None), (source.minimum, source.maximum))
        return bounds and (kinds[0] == kinds[1] or kinds == ("integer", "number"))

    def _array(self, items: Type, wanted: Type, has: int | None, most: int | None, holder: str, wire: str) -> Plan:
        plan: Plan = ("items", self._plan(items, wanted, holder, wire))
        spread = self._flatten(self._source.resolved(items), self._target.resolved(wanted))
        if spread is not None:
            property, rule = spread
            plan = ("flatten", property, plan, rule)
        if most is not None and (has is None or has > most):
            plan = ("truncate", most, plan, self._rule("truncate", f"{holder}.{wire}", f"At most {most} items are allowed."))
        return plan

    def _flatten(self, item: Type, wanted: Type) -> tuple[str, str] | None:
        """The property of the items that may be a list here and not there, where a row says to flatten it."""
        mine, theirs = self._source.object(item), self._target.object(wanted)
        if mine is None or theirs is None:
            return None
        for one in mine.fields:
            other = theirs.field(one.wire)
            if other is not None and self._rows.has("flatten", mine.name, one.wire):
                here, there = self._source.arms(one.type), self._target.arms(other.type)
                if _has_list(here) and not _has_list(there):
                    return one.wire, self._rule_text(self._rows.at("flatten", mine.name, one.wire), mine.name, one.wire)
        return None

    def _union(self, arms: list[Type], others: list[Type], holder: str, wire: str) -> Plan:
        plans = [self._arm(arm, others, holder, wire) for arm in arms]
        if len(arms) == 1:
            return plans[0]
        objects = [self._source.object(arm) for arm in arms]
        tag = _tag(objects)
        if tag is not None:
            known = {each.field(tag).constant: plan for each, plan in zip(objects, plans) if each is not None}  # type: ignore[union-attr]
            return ("tag", tag, known)
        order = sorted(range(len(arms)), key=lambda number: -required_by(objects[number]))
        return ("one_of", tuple((self._source.shape(arms[number]), plans[number]) for number in order))

    def _arm(self, arm: Type, others: list[Type], holder: str, wire: str) -> Plan:
        """What one form of a value becomes, where the neighbour has these forms."""
        each = self._source.object(arm)
        if each is None:
            for other in others:
                if _alike(arm, other):
                    return self._plan(arm, other, holder, wire)
            if isinstance(arm, Array) and self._rows.has("first", holder, wire):
                plan = self._union(self._source.arms(arm.items), others, holder, wire)
                return ("first", plan, self._rule_text(self._rows.at("first", holder, wire), holder, wire))
            return self._refusal(f"{holder}.{wire}", f"{self._step.target} does not allow a value of this type.")
        for other in others:
            named = self._target.object(other)
            if named is not None and self._same(each.name, named.name):
                return ("type", self._pair(each, named))
        return self._replace(each.name, others, holder, wire)

    def _replace(self, name: str, others: list[Type], holder: str, wire: str) -> Plan:
        refusal = self._refusal(name, f"{self._step.target} has no {name} and no substitute for it.")
        if not self._rows.has_type("replace", name):
            return refusal
        row = self._rows.peek("replace", name)
        nearest = str(row.text["use"])
        if nearest not in self._source.revision.types:
            return refusal
        plan = self._arm(Ref(nearest), others, holder, wire)
        if plan is not None and plan[0] == "refuse":
            return refusal
        self._rows.find("replace", name)
        return ("replace", row.text["with"], plan, self._rule("replace", name, row.reason))

    def _same(self, mine: str, theirs: str) -> bool:
        """Whether these are one type, which one of the two revisions may have under another name."""
        if mine == theirs:
            return True
        for old, new in ((mine, theirs), (theirs, mine)):
            if self._rows.has_type("rename", old) and self._rows.peek("rename", old).text["use"] == new:
                self._rows.find("rename", old)
                return True
        return False

    # ---- objects ----------------------------------------------------------------------------------------------------

    def _pair(self, mine: Object | None, theirs: Object) -> str:
        """The name of the plan that makes one object the other; a map is an object without properties of its own."""
        name = mine.name if mine is not None else "map"
        key = theirs.name if name == theirs.name else f"{name} > {theirs.name}"
        if key not in self._step.types:
            plan: dict[str, dict[str, Any]] = {"fields": {}, "add": {}, "require": {}, "drop_misfits": {}}
            self._step.types[key] = plan
            fields = mine.fields if mine is not None else ()
            for one in fields:
                other = theirs.field(one.wire)
                if other is None:
                    plan["fields"][one.wire] = self._missing(name, one)
                else:
                    plan["fields"][one.wire] = self._common(theirs.name, one, other, plan)
            known = {one.wire for one in fields}
            for other in theirs.fields:
                if other.wire not in known:
                    self._new(theirs.name, other, plan)
        return key

    def _missing(self, holder: str, one: Field) -> Plan:
        """What happens to a property that the neighbour does not have."""
        if self._rows.at("preserve", holder, one.wire) is not None:
            return None
        refusing = self._rows.at("refuse", holder, one.wire)
        if refusing is not None:
            return ("refuse", self._rule_text(refusing, holder, one.wire))
        dropping = self._rows.at("drop", holder, one.wire)
        reason = dropping.reason if dropping is not None else f"{self._step.target} does not define this property."
        rule = self._rule("drop", f"{holder}.{one.wire}", reason)
        default = self._rows.at("default", holder, one.wire)
        if default is not None and "provided" in default.text:
            return ("drop_default", None, rule, False)
        if one.constant is not None or default is not None and "use" in default.text:
            return ("drop_default", one.constant if default is None else default.text["use"], rule, True)
        return ("drop", rule)

    def _common(self, holder: str, one: Field, other: Field, plan: dict[str, dict[str, Any]]) -> Plan:
        """What happens to a property that both have."""
        inner = self._plan(one.type, other.type, holder, one.wire)
        if other.required and not one.required:
            self._require(holder, other, plan)
        is_object = self._source.object(self._source.resolved(one.type)) is not None
        if one.required and not other.required and is_object:
            return ("drop_if_empty", inner)
        return inner

    def _new(self, holder: str, other: Field, plan: dict[str, dict[str, Any]]) -> None:
        """A property that only the neighbour names: something else may stand there under that name."""
        shape = self._target.shape(other.type)
        if shape is not None:
            reason = f"{self._step.target} defines this property with another type."
            plan["drop_misfits"][other.wire] = (shape, self._rule("misfit", f"{holder}.{other.wire}", reason))
        if other.required or self._rows.has("default", holder, other.wire):
            self._require(holder, other, plan)

    def _require(self, holder: str, other: Field, plan: dict[str, dict[str, Any]]) -> None:
        """A property that only the neighbour requires: its usual value, what a row says, or nothing goes without it."""
        row = self._rows.at("default", holder, other.wire)
        if row is not None:
            (how, what), *_ = row.text.items()
            plan["add"][other.wire] = ("value" if how == "use" else how, what)
        elif other.constant is not None:
            plan["add"][other.wire] = ("value", other.constant)
        elif self._target.object(self._target.resolved(other.type)) is not None:
            plan["add"][other.wire] = ("value", {})
        else:
            reason = f"{self._step.target} requires it, and there is no default."
            plan["require"][other.wire] = self._rule("require", f"{holder}.{other.wire}", reason)

    # ---- rules ------------------------------------------------------------------------------------------------------

    def _fitting(self, target: Type, plan: Plan, holder: str, wire: str) -> Plan:
        """The plan, for values that fit; others are dropped where a row says so."""
        row = self._rows.find("drop", f"{holder}.{wire}")
        if row is not None:
            return ("match", self._target.shape(target), plan, ("drop", self._rule_text(row, holder, wire)))
        refusal = self._refusal(f"{holder}.{wire}", f"{self._step.target} does not allow this value.")
        return ("match", self._target.shape(target), plan, refusal)

    def _refusal(self, place: str, reason: str) -> Plan:
        return ("refuse", self._rule("refuse", place, reason))

    def _rule_text(self, row: ConversionRule | None, holder: str, wire: str) -> str:
        assert row is not None
        return self._rule(row.table, f"{holder}.{wire}", row.reason)

    def _rule(self, what: str, place: str, reason: str) -> str:
        self._step.rules[f"{what} {place}"] = reason
        return f"{what} {place}"


def _has_list(arms: Iterable[Type]) -> bool:
    return any(isinstance(arm, Array) for arm in arms)


def _alike(one: Type, other: Type) -> bool:
    """Whether a value of the one may be a value of the other."""
    if isinstance(one, Plain) and isinstance(other, Plain):
        return one.kind == other.kind
    return type(one) is type(other) and not isinstance(one, Ref)


def _tag(objects: list[Object | None]) -> str | None:
    """The property whose constants tell these objects apart, if there is one."""
    found = [each for each in objects if each is not None]
    if len(found) < len(objects):
        return None
    for one in found[0].fields:
        tagged = [each.field(one.wire) for each in found]
        constants = [each.constant for each in tagged if each is not None and isinstance(each.type, Values)]
        if None not in constants and len(set(constants)) == len(found):
            return one.wire
    return None
