"""The conversion step between two neighbouring revisions, derived from both and conversions.toml, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..model.ir import Array, Field, Map, Method, Object, Plain, Ref, Revision, Type, Values
from .error_codes import converted_error_codes
from .rules import ConversionRule, Conversions
from .shapes import Shapes, required_by
from .simplify import simplify
from .steps import Plan, Step

_DECLARED: Final = ("ClientCapabilities", "ServerCapabilities")
_BASES: Final = {"request": "Request", "notification": "Notification"}


def derive_step(source: Revision, target: Revision, conversions: Conversions) -> Step:
    """Return the step between two neighbours, in this direction."""
    return _StepBuilder(source, target, conversions).step()


class _StepBuilder:
    def __init__(self, source: Revision, target: Revision, rows: Conversions) -> None:
        self._step = Step(source.id, target.id)
        self._source = Shapes(source, self._step.records)
        self._target = Shapes(target, self._step.records)
        self._rows = rows

    def step(self) -> Step:
        """Return the step, simplified."""
        target_rows = {(row.direction, row.method): row for row in self._target.revision.methods}
        for row in self._source.revision.methods:
            target_row = target_rows.get((row.direction, row.method))
            if target_row is None:
                self._step.removed_methods.setdefault(row.direction, {})[row.method] = self._removed(row)
            else:
                self._step.methods.setdefault(row.direction, {})[row.method] = self._method_plan(row, target_row)
        for name in _DECLARED:
            source_type, target_type = (
                side.object(Ref(name)) if name in side.revision.types else None for side in self._sides
            )
            if source_type is not None and target_type is not None:
                self._object_plan(source_type, target_type)
        simplify(self._step)
        return self._step

    @property
    def _sides(self) -> tuple[Shapes, Shapes]:
        return self._source, self._target

    # ---- methods ----------------------------------------------------------------------------------------------------

    def _removed(self, row: Method) -> tuple[str, str]:
        rule = self._rows.find("method", row.method)
        answer = "ignore" if row.kind == "notification" else "refuse"
        reason = rule.reason if rule is not None else f"{self._step.target} does not define this method."
        return (str(rule.values["answer"]) if rule is not None else answer), self._rule("method", row.method, reason)

    def _method_plan(self, row: Method, target_row: Method) -> dict[str, Any]:
        params: Plan = None
        if row.params is not None and target_row.params is not None:
            source_params, target_params = self._params(self._source, row), self._params(self._target, target_row)
            if source_params is not None and target_params is not None:
                params = ("type", self._object_plan(source_params, target_params))
            else:
                params = self._plan(Ref(row.params), Ref(target_row.params), row.type, "params")
        results: dict[str, Plan] = {}
        if row.result is not None and target_row.result is not None:
            results[""] = self._plan(Ref(row.result), Ref(target_row.result), row.type, "result")
        target_interim = {interim.type for interim in target_row.interim}
        for interim in row.interim:
            if interim.type in target_interim:
                results[interim.type] = self._plan(Ref(interim.type), Ref(interim.type), row.type, "result")
            else:
                results[interim.type] = self._refusal(
                    interim.type, f"{self._step.target} does not define this result type."
                )
        errors = converted_error_codes(self._source.revision, self._target.revision, row.method, self._rows)
        return {"params": params, "results": results, "errors": errors}

    def _params(self, side: Shapes, row: Method) -> Object | None:
        """Return the params of a message, with the properties that only the params of the base message declare."""
        assert row.params is not None
        params = side.object(side.resolved(Ref(row.params)))
        base = side.revision.types.get(_BASES.get(row.kind, ""))
        inherited = base.field("params") if isinstance(base, Object) else None
        base_params = side.object(side.resolved(inherited.type)) if inherited is not None else None
        if params is None or base_params is None:
            return params
        fields = tuple(field for field in base_params.fields if params.field(field.wire) is None)
        return Object(params.name, (*params.fields, *fields)) if fields else params

    # ---- types ------------------------------------------------------------------------------------------------------

    def _plan(self, source_type: Type, target_type: Type, holder: str, wire: str) -> Plan:
        """Return the plan that converts a value of one type to the other. `holder` and `wire` name the property that
        has it."""
        source, target = self._source.resolved(source_type), self._target.resolved(target_type)
        if self._target.is_any(target):
            return None
        if self._source.is_any(source):
            return self._fitting(target, None, holder, wire)
        source_arms, target_arms = self._source.arms(source), self._target.arms(target)
        if len(source_arms) > 1 or len(target_arms) > 1:
            return self._union_plan(source_arms, target_arms, holder, wire)
        source_object, target_object = self._source.object(source), self._target.object(target)
        if target_object is not None and (source_object is not None or isinstance(source, Map)):
            plan: Plan = ("type", self._object_plan(source_object, target_object))
            return self._fitting(target, plan, holder, wire) if self._rows.has("drop", holder, wire) else plan
        return self._plain_plan(source, target, holder, wire)

    def _plain_plan(self, source: Type, target: Type, holder: str, wire: str) -> Plan:
        match source, target:
            case (Array(items), Array(other, max_items)):
                return self._array_plan(items, other, source.max_items, max_items, holder, wire)
            case (Map(values), Map(other)):
                return ("values", self._plan(values, other, holder, wire))
            case (Ref(), Map(other)) if self._target.is_any(other):
                return None
            case (Values(values), Values(other)) if set(values) <= set(other):
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

    def _array_plan(
        self, items: Type, target_items: Type, source_max: int | None, target_max: int | None, holder: str, wire: str
    ) -> Plan:
        plan: Plan = ("items", self._plan(items, target_items, holder, wire))
        flattening = self._flatten(self._source.resolved(items), self._target.resolved(target_items))
        if flattening is not None:
            property, rule = flattening
            plan = ("flatten", property, plan, rule)
        if target_max is not None and (source_max is None or source_max > target_max):
            plan = (
                "truncate",
                target_max,
                plan,
                self._rule("truncate", f"{holder}.{wire}", f"At most {target_max} items are allowed."),
            )
        return plan

    def _flatten(self, item: Type, target_item: Type) -> tuple[str, str] | None:
        """Return the property of the items that may be a list only in the source, if a row flattens it."""
        source_object, target_object = self._source.object(item), self._target.object(target_item)
        if source_object is None or target_object is None:
            return None
        for field in source_object.fields:
            target_field = target_object.field(field.wire)
            if target_field is not None and self._rows.has("flatten", source_object.name, field.wire):
                source_arms, target_arms = self._source.arms(field.type), self._target.arms(target_field.type)
                if _has_list(source_arms) and not _has_list(target_arms):
                    return field.wire, self._rule_text(
                        self._rows.at("flatten", source_object.name, field.wire), source_object.name, field.wire
                    )
        return None

    def _union_plan(self, arms: list[Type], target_arms: list[Type], holder: str, wire: str) -> Plan:
        plans = [self._arm_plan(arm, target_arms, holder, wire) for arm in arms]
        if len(arms) == 1:
            return plans[0]
        objects = [self._source.object(arm) for arm in arms]
        tag = _tag(objects)
        if tag is not None:
            plans_by_tag: dict[Any, Plan] = {}
            for obj, plan in zip(objects, plans, strict=True):
                if obj is not None and (field := obj.field(tag)) is not None:
                    plans_by_tag[field.constant] = plan
            return ("tag", tag, plans_by_tag)
        order = sorted(range(len(arms)), key=lambda index: -required_by(objects[index]))
        return ("one_of", tuple((self._source.shape(arms[index]), plans[index]) for index in order))

    def _arm_plan(self, arm: Type, target_arms: list[Type], holder: str, wire: str) -> Plan:
        """Return the plan of one arm of a union, for a target with these arms."""
        source_object = self._source.object(arm)
        if source_object is None:
            for target_arm in target_arms:
                if _alike(arm, target_arm):
                    return self._plan(arm, target_arm, holder, wire)
            if isinstance(arm, Array) and self._rows.has("first", holder, wire):
                plan = self._union_plan(self._source.arms(arm.items), target_arms, holder, wire)
                return ("first", plan, self._rule_text(self._rows.at("first", holder, wire), holder, wire))
            return self._refusal(f"{holder}.{wire}", f"{self._step.target} does not allow a value of this type.")
        for target_arm in target_arms:
            target_object = self._target.object(target_arm)
            if target_object is not None and self._is_same_type(source_object.name, target_object.name):
                return ("type", self._object_plan(source_object, target_object))
        return self._replacement(source_object.name, target_arms, holder, wire)

    def _replacement(self, name: str, target_arms: list[Type], holder: str, wire: str) -> Plan:
        refusal = self._refusal(name, f"{self._step.target} has no {name} and no substitute for it.")
        if not self._rows.has_type("replace", name):
            return refusal
        row = self._rows.peek("replace", name)
        substitute = str(row.values["use"])
        if substitute not in self._source.revision.types:
            return refusal
        plan = self._arm_plan(Ref(substitute), target_arms, holder, wire)
        if plan is not None and plan[0] == "refuse":
            return refusal
        self._rows.find("replace", name)
        return ("replace", row.values["with"], plan, self._rule("replace", name, row.reason))

    def _is_same_type(self, source_name: str, target_name: str) -> bool:
        """Return True if both names mean one type, which one of the two revisions may have renamed."""
        if source_name == target_name:
            return True
        for old, new in ((source_name, target_name), (target_name, source_name)):
            if self._rows.has_type("rename", old) and self._rows.peek("rename", old).values["use"] == new:
                self._rows.find("rename", old)
                return True
        return False

    # ---- objects ----------------------------------------------------------------------------------------------------

    def _object_plan(self, source_object: Object | None, target_object: Object) -> str:
        """Return the name of the plan that converts one object to the other. A map is an object without properties
        of its own."""
        name = source_object.name if source_object is not None else "map"
        key = target_object.name if name == target_object.name else f"{name} > {target_object.name}"
        if key not in self._step.types:
            plan: dict[str, dict[str, Any]] = {"fields": {}, "add": {}, "require": {}, "drop_misfits": {}}
            self._step.types[key] = plan
            fields = source_object.fields if source_object is not None else ()
            for field in fields:
                target_field = target_object.field(field.wire)
                if target_field is None:
                    plan["fields"][field.wire] = self._missing_property(name, field)
                else:
                    plan["fields"][field.wire] = self._common_property(target_object.name, field, target_field, plan)
            wires = {field.wire for field in fields}
            for target_field in target_object.fields:
                if target_field.wire not in wires:
                    self._new_property(target_object.name, target_field, plan)
        return key

    def _missing_property(self, holder: str, field: Field) -> Plan:
        """Return the plan of a property that the target does not have."""
        if self._rows.at("preserve", holder, field.wire) is not None:
            return None
        refuse_row = self._rows.at("refuse", holder, field.wire)
        if refuse_row is not None:
            return ("refuse", self._rule_text(refuse_row, holder, field.wire))
        drop_row = self._rows.at("drop", holder, field.wire)
        reason = drop_row.reason if drop_row is not None else f"{self._step.target} does not define this property."
        rule = self._rule("drop", f"{holder}.{field.wire}", reason)
        default_row = self._rows.at("default", holder, field.wire)
        if default_row is not None and "provided" in default_row.values:
            return ("drop_default", None, rule, False)
        if field.constant is not None or (default_row is not None and "use" in default_row.values):
            return ("drop_default", field.constant if default_row is None else default_row.values["use"], rule, True)
        return ("drop", rule)

    def _common_property(
        self, holder: str, source_field: Field, target_field: Field, plan: dict[str, dict[str, Any]]
    ) -> Plan:
        """Return the plan of a property that both revisions have."""
        inner = self._plan(source_field.type, target_field.type, holder, source_field.wire)
        if target_field.required and not source_field.required:
            self._require(holder, target_field, plan)
        is_object = self._source.object(self._source.resolved(source_field.type)) is not None
        if source_field.required and not target_field.required and is_object:
            return ("drop_if_empty", inner)
        return inner

    def _new_property(self, holder: str, field: Field, plan: dict[str, dict[str, Any]]) -> None:
        """Add a property that only the target has. A value of another type under that name is removed."""
        shape = self._target.shape(field.type)
        if shape is not None:
            reason = f"{self._step.target} defines this property with another type."
            plan["drop_misfits"][field.wire] = (shape, self._rule("misfit", f"{holder}.{field.wire}", reason))
        if field.required or self._rows.has("default", holder, field.wire):
            self._require(holder, field, plan)

    def _require(self, holder: str, field: Field, plan: dict[str, dict[str, Any]]) -> None:
        """Add a property that only the target requires: by a row, by its default, or as a need that must be met."""
        row = self._rows.at("default", holder, field.wire)
        if row is not None:
            (action, value), *_ = row.values.items()
            plan["add"][field.wire] = ("value" if action == "use" else action, value)
        elif field.constant is not None:
            plan["add"][field.wire] = ("value", field.constant)
        elif self._target.object(self._target.resolved(field.type)) is not None:
            plan["add"][field.wire] = ("value", {})
        else:
            reason = f"{self._step.target} requires it, and there is no default."
            plan["require"][field.wire] = self._rule("require", f"{holder}.{field.wire}", reason)

    # ---- rules ------------------------------------------------------------------------------------------------------

    def _fitting(self, target: Type, plan: Plan, holder: str, wire: str) -> Plan:
        """Return the plan, limited to values that fit. Other values are dropped if a row drops them, else refused."""
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

    def _rule(self, action: str, place: str, reason: str) -> str:
        self._step.rules[f"{action} {place}"] = reason
        return f"{action} {place}"


def _has_list(arms: Iterable[Type]) -> bool:
    return any(isinstance(arm, Array) for arm in arms)


def _alike(one: Type, other: Type) -> bool:
    """Return True if a value of one type may be a value of the other."""
    if isinstance(one, Plain) and isinstance(other, Plain):
        return one.kind == other.kind
    return type(one) is type(other) and not isinstance(one, Ref)


def _tag(objects: list[Object | None]) -> str | None:
    """Return the property whose constants discriminate these objects, if there is one."""
    present = [obj for obj in objects if obj is not None]
    if len(present) < len(objects):
        return None
    for field in present[0].fields:
        fields = [obj.field(field.wire) for obj in present]
        constants = [item.constant for item in fields if item is not None and isinstance(item.type, Values)]
        if None not in constants and len(set(constants)) == len(present):
            return field.wire
    return None
