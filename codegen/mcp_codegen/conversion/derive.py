"""The conversion step between two neighbouring revisions, derived from both and conversions.toml, as plain data: their
names, error codes, types and methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from ..errors import OverlayError
from ..model.ir import Array, Field, Map, Method, Object, Plain, Ref, Revision, Type, Union, Values
from .rules import ConversionRule, Conversions
from .shapes import Containment, Shapes, required_by
from .steps import PARTS, Plan, Step, simplify

_NULL: Final = Plain("null")
_DECLARED: Final = ("ClientCapabilities", "ServerCapabilities")
_BASES: Final = {"request": "Request", "notification": "Notification"}

# The names that changed between two neighbouring revisions: those of types, of properties and of methods.
#
# A row of [[rename]] applies between two revisions if the source has one of its two names and the target the other one,
# which the source has not.


class Renames:
    """The rows of [[rename]] between two revisions, in this direction. A row that is applied is marked as used."""

    def __init__(self, source: Shapes, target: Shapes, rows: Conversions) -> None:
        self._source = source.revision
        self._target = target.revision
        self._rows = rows
        self._containment = Containment(source, target)

    # ---- methods ----------------------------------------------------------------------------------------------------

    def method(self, row: Method) -> Method | None:
        """Return the target's row of a method, which may have another name there; None if there is none."""
        theirs = {other.method: other for other in self._target.methods if other.direction == row.direction}
        if row.method in theirs:
            return theirs[row.method]
        ours = {other.method for other in self._source.methods if other.direction == row.direction}
        for name, rule in self._others("method", row.method):
            if name in theirs and name not in ours:
                if theirs[name].kind != row.kind:
                    kinds = f"a {_words(row.kind)} in {self._source.id}, and a {_words(theirs[name].kind)}"
                    raise self._untrue(rule, f"{row.method} is {kinds} in {self._target.id}")
                rule.used = True
                return theirs[name]
        return None

    def is_same_constant(self, before: object, after: object) -> bool:
        """Return True if the one constant is a method, and the other its name in the target."""
        return any((row, name) == (before, after) for row, name in self._methods())

    def _methods(self) -> Iterator[tuple[str, str]]:
        for row in self._source.methods:
            other = self.method(row)
            if other is not None and other.method != row.method:
                yield row.method, other.method

    # ---- types ------------------------------------------------------------------------------------------------------

    def is_same_type(self, source_name: str, target_name: str) -> bool:
        """Return True if both names mean one type, which one of the two revisions may have renamed."""
        if source_name == target_name:
            return True
        for name, rule in self._others("type", source_name):
            if name == target_name:
                self._check_types(rule, source_name, target_name)
                rule.used = True
                return True
        return False

    def type(self, name: str) -> str:
        """Return the name of a type in the target; the same name if no row renames it."""
        if name in self._target.types:
            return name
        others = (other for other, _ in self._others("type", name) if other in self._target.types)
        return next((other for other in others if self.is_same_type(name, other)), name)

    def _check_types(self, rule: ConversionRule, source_name: str, target_name: str) -> None:
        source, target = self._source.types[source_name], self._target.types[target_name]
        if type(source) is not type(target):
            raise self._untrue(rule, f"only one of {source_name} and {target_name} is an object")
        if isinstance(source, Object) and isinstance(target, Object) and source.fields and target.fields:
            common = {field.wire for field in source.fields} & {field.wire for field in target.fields}
            if not common and not any(self._renamed(source, target, field.wire) for field in source.fields):
                raise self._untrue(rule, f"{source_name} and {target_name} have no property in common")

    # ---- properties -------------------------------------------------------------------------------------------------

    def properties(self, source: Object | None, target: Object) -> dict[str, Field]:
        """Return the target's property for each property of the source that has one there."""
        fields = source.fields if source is not None else ()
        renamed = {
            field.wire: found
            for field in fields
            if source is not None and (found := self._renamed(source, target, field.wire)) is not None
        }
        taken = {field.wire for field in renamed.values()}
        same = {
            field.wire: found
            for field in fields
            if field.wire not in renamed and field.wire not in taken and (found := target.field(field.wire)) is not None
        }
        return same | renamed

    def _renamed(self, source: Object, target: Object, wire: str) -> Field | None:
        rows = self._rows.renames("at")
        if not rows:
            return None
        for holder in dict.fromkeys((*_family(source, self._source), *_family(target, self._target), "*")):
            for place, row in rows.items():
                type_name, _, name = place.partition(".")
                use = str(row.values["use"])
                if type_name != holder or wire not in (name, use):
                    continue
                # The other name. A revision may have given the name that is free now to another property.
                other = use if wire == name else name
                is_changed = (source if wire == name else target).field(use) is None
                found = target.field(other)
                if found is not None and is_changed:
                    self._check_property(row, source, wire, target, found)
                    row.used = True
                    return found
        return None

    def _check_property(self, rule: ConversionRule, source: Object, wire: str, target: Object, found: Field) -> None:
        field = source.field(wire)
        if field is not None and not self._containment.overlap(field.type, found.type):
            raise self._untrue(
                rule,
                f"no value of {source.name}.{wire} in {self._source.id} is one of {target.name}.{found.wire} in "
                f"{self._target.id}",
            )

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _others(self, kind: str, name: str) -> Iterator[tuple[str, ConversionRule]]:
        """Yield the other names that rows have for a type or a method, each with its row."""
        for place, row in self._rows.renames(kind).items():
            if place == name:
                yield str(row.values["use"]), row
            elif row.values["use"] == name:
                yield place, row

    def _untrue(self, rule: ConversionRule, reason: str) -> OverlayError:
        return OverlayError(f"{rule} is untrue: {reason}; correct or remove the row", rule="overlay", at=rule.place)


def _family(type: Object, revision: Revision) -> list[str]:
    """Return the name of a type, and those of the types that it extends, directly or through others."""
    names = [type.name]
    for name in names:  # It grows.
        defined = revision.types.get(name)
        if isinstance(defined, Object):
            names += [base for base in defined.extends if base not in names]
    return names


def _words(kind: str) -> str:
    return kind.replace("_", " ")


# The error codes that convert between neighbouring revisions.


def converted_error_codes(source: Revision, target: Revision, method: str, rows: Conversions) -> dict[int, int]:
    """Return the error codes of a method by what they become: a code that only one of the two revisions sends is
    replaced by the one that the other sends instead, and back."""
    if not rows.has_type("code", method) or set(source.reserved_codes) == set(target.reserved_codes):
        return {}
    method_code = int(rows.peek("code", method).values["use"])
    codes: dict[int, int] = {}
    for reserved in source.reserved_codes:
        if reserved.first == reserved.last == method_code:
            codes[reserved.replacement] = method_code
    for reserved in target.reserved_codes:
        if reserved.first == reserved.last == method_code:
            codes[method_code] = reserved.replacement
    if codes:
        rows.find("code", method)
    return codes


def derive_step(source: Revision, target: Revision, conversions: Conversions) -> Step:
    """Return the step between two neighbours, in this direction."""
    return _StepBuilder(source, target, conversions).step()


class _StepBuilder:
    def __init__(self, source: Revision, target: Revision, rows: Conversions) -> None:
        self._step = Step(source.id, target.id)
        self._source = Shapes(source, self._step.records)
        self._target = Shapes(target, self._step.records)
        self._rows = rows
        self._renames = Renames(self._source, self._target, rows)
        self._containment = Containment(self._source, self._target)

    def step(self) -> Step:
        """Return the step, simplified."""
        for row in self._source.revision.methods:
            target_row = self._renames.method(row)
            if target_row is None:
                self._step.removed_methods.setdefault(row.direction, {})[row.method] = self._removed(row)
                continue
            self._step.methods.setdefault(row.direction, {})[row.method] = self._method_plan(row, target_row)
            if target_row.method != row.method:
                self._step.renamed_methods.setdefault(row.direction, {})[row.method] = target_row.method
        for name in _DECLARED:
            other = self._type_name(name) if name in self._source.revision.types else name
            if name in self._source.revision.types and other in self._target.revision.types:
                source_type, target_type = self._source.object(Ref(name)), self._target.object(Ref(other))
                if source_type is not None and target_type is not None:
                    self._object_plan(source_type, target_type)
        simplify(self._step)
        return self._step

    def _type_name(self, name: str) -> str:
        """Return the name of a type in the target, and note it if it is another one."""
        other = self._renames.type(name)
        if other != name:
            self._step.renamed_types[name] = other
        return other

    # ---- methods ----------------------------------------------------------------------------------------------------

    def _removed(self, row: Method) -> tuple[str, str]:
        rule = self._rows.find("method", row.method)
        answer = "ignore" if row.kind == "notification" else "refuse"
        reason = rule.reason if rule is not None else f"{self._step.target} does not define this method."
        return (str(rule.values["answer"]) if rule is not None else answer), self._rule("method", row.method, reason)

    def _method_plan(self, row: Method, target_row: Method) -> dict[str, Any]:
        params = self._params_plan(row, target_row)
        results: dict[str, Plan] = {}
        if row.result is not None and target_row.result is not None:
            results[""] = self._plan(Ref(row.result), Ref(target_row.result), row.type, "result")
        target_interim = {interim.type for interim in target_row.interim}
        for interim in row.interim:
            name = self._type_name(interim.type)
            if name in target_interim:
                results[interim.type] = self._plan(Ref(interim.type), Ref(name), row.type, "result")
            else:
                results[interim.type] = self._refusal(
                    interim.type, f"{self._step.target} does not define this result type."
                )
        errors = converted_error_codes(self._source.revision, self._target.revision, row.method, self._rows)
        return {"params": params, "results": results, "errors": errors}

    def _params_plan(self, row: Method, target_row: Method) -> Plan:
        source_params, target_params = self._params(self._source, row), self._params(self._target, target_row)
        if target_params is not None and (source_params is not None or row.params is None):
            return ("type", self._object_plan(source_params, target_params))
        if row.params is None or target_row.params is None:
            return None
        return self._plan(Ref(row.params), Ref(target_row.params), row.type, "params")

    def _params(self, side: Shapes, row: Method) -> Object | None:
        """Return the params of a message, with the properties that only the params of the base message declare."""
        params = side.object(side.resolved(Ref(row.params))) if row.params is not None else None
        base = side.revision.types.get(_BASES.get(row.kind, ""))
        inherited = base.field("params") if isinstance(base, Object) else None
        base_params = side.object(side.resolved(inherited.type)) if inherited is not None else None
        if params is None and row.params is None:
            return base_params
        if params is None or base_params is None:
            return params
        fields = tuple(field for field in base_params.fields if params.field(field.wire) is None)
        return replace(params, fields=(*params.fields, *fields)) if fields else params

    # ---- types ------------------------------------------------------------------------------------------------------

    def _plan(self, source_type: Type, target_type: Type, holder: str, wire: str) -> Plan:
        """Return the plan that converts a value of one type to the other. `holder` and `wire` name the property that
        has it."""
        source, target = self._source.resolved(source_type), self._target.resolved(target_type)
        if self._target.is_any(target):
            return None
        if self._source.is_any(source):
            return self._fitting(source, target, None, holder, wire)
        source_arms, target_arms = self._source.arms(source), self._target.arms(target)
        if len(source_arms) > 1 or len(target_arms) > 1:
            return self._union_plan(source_arms, target_arms, holder, wire)
        source_object, target_object = self._source.object(source), self._target.object(target)
        if target_object is not None and (source_object is not None or isinstance(source, Map)):
            plan: Plan = ("type", self._object_plan(source_object, target_object))
            is_droppable = self._rows.has("drop", holder, wire)
            return self._fitting(source, target, plan, holder, wire) if is_droppable else plan
        return self._plain_plan(source, target, holder, wire)

    def _plain_plan(self, source: Type, target: Type, holder: str, wire: str) -> Plan:
        match source, target:
            case (Array(), Array()):
                return self._array_plan(source, target, holder, wire)
            case (Map(values), Map(other)):
                return ("values", self._plan(values, other, holder, wire))
            case (Values((value,)), Values((other,))) if self._renames.is_same_constant(value, other):
                return ("constant", other)
            case _:
                return self._fitting(source, target, None, holder, wire)

    def _array_plan(self, source: Array, target: Array, holder: str, wire: str) -> Plan:
        items = self._plan(source.items, target.items, holder, wire)
        plan: Plan = ("items", items)
        least, most = target.min_items, target.max_items
        few = ""
        if least is not None:
            few = self._rule("few", f"{holder}.{wire}", f"{self._step.target} requires at least {least} items.")
            plan = ("items", items, least, few)
        if most is not None and (source.max_items is None or source.max_items > most):
            rule = self._rule("truncate", f"{holder}.{wire}", f"At most {most} items are allowed.")
            plan = ("truncate", most, plan, rule)
        if least is not None and (source.min_items is None or source.min_items < least):
            plan = ("match", ("list", None, least, None), plan, ("refuse", few))
        flattening = self._flatten(self._source.resolved(source.items), self._target.resolved(target.items))
        return plan if flattening is None else ("flatten", flattening[0], plan, flattening[1])

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
            return self._value_arm_plan(arm, target_arms, holder, wire)
        for target_arm in target_arms:
            target_object = self._target.object(target_arm)
            if target_object is not None and self._renames.is_same_type(source_object.name, target_object.name):
                return ("type", self._object_plan(source_object, target_object))
        for target_arm in target_arms:
            if isinstance(target_arm, Map):
                return self._plan(arm, target_arm, holder, wire)
        return self._replacement(source_object.name, target_arms, holder, wire)

    def _value_arm_plan(self, arm: Type, target_arms: list[Type], holder: str, wire: str) -> Plan:
        """Return the plan of an arm that is not an object with properties of its own."""
        alike = [other for other in target_arms if self._containment.holds(arm, other)]
        alike = alike or [other for other in target_arms if _alike(arm, other)]
        if alike:
            return (
                self._plan(arm, alike[0], holder, wire) if len(alike) == 1 else self._one_of(arm, alike, holder, wire)
            )
        objects = [other for other in target_arms if self._target.object(other) is not None]
        if isinstance(arm, Map) and len(objects) == 1:
            return self._plan(arm, objects[0], holder, wire)
        if isinstance(arm, Array) and self._rows.has("first", holder, wire):
            plan = self._union_plan(self._source.arms(arm.items), target_arms, holder, wire)
            return ("first", plan, self._rule_text(self._rows.at("first", holder, wire), holder, wire))
        meeting = [other for other in target_arms if self._containment.overlap(arm, other) and not _is_composed(other)]
        if meeting and not _is_composed(arm):
            return self._one_of(arm, meeting, holder, wire)
        return self._refusal(f"{holder}.{wire}", f"{self._step.target} does not allow a value of this type.")

    def _one_of(self, arm: Type, target_arms: list[Type], holder: str, wire: str) -> Plan:
        """Return the plan of a value for a target that has several types which it may be of."""
        fitting = next((other for other in target_arms if self._containment.holds(arm, other)), None)
        if fitting is not None:
            return self._plan(arm, fitting, holder, wire)
        return self._fitting(arm, Union(tuple(target_arms)), None, holder, wire)

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
        filled = ("match", self._source.shape(Ref(substitute)), plan, refusal)
        return ("replace", row.values["with"], filled, self._rule("replace", name, row.reason))

    # ---- objects ----------------------------------------------------------------------------------------------------

    def _object_plan(self, source_object: Object | None, target_object: Object) -> str:
        """Return the name of the plan that converts one object to the other. A map is an object without properties
        of its own."""
        name = source_object.name if source_object is not None else "map"
        key = target_object.name if name == target_object.name else f"{name} > {target_object.name}"
        if key not in self._step.types:
            plan: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
            self._step.types[key] = plan
            if source_object is not None:
                self._renames.is_same_type(name, target_object.name)  # The row that says so is used.
            self._own_properties(source_object, target_object, plan)
            if target_object.closed and not (source_object is not None and source_object.closed):
                rule = self._rule("closed", target_object.name, f"{self._step.target} allows no other property there.")
                plan["closed"][rule] = [field.wire for field in target_object.fields]
        return key

    def _own_properties(
        self, source_object: Object | None, target_object: Object, plan: dict[str, dict[str, Any]]
    ) -> None:
        """Plan the properties of the source, and those that only the target has."""
        name = source_object.name if source_object is not None else "map"
        fields = source_object.fields if source_object is not None else ()
        counterparts = self._renames.properties(source_object, target_object)
        for field in fields:
            target_field = counterparts.get(field.wire)
            if target_field is None:
                plan["fields"][field.wire] = self._missing_property(name, field, target_object.closed)
                continue
            plan["fields"][field.wire] = self._common_property(target_object.name, field, target_field, plan)
            if target_field.wire != field.wire:
                plan["rename"][field.wire] = target_field.wire
        own, taken = {field.wire for field in fields}, {field.wire for field in counterparts.values()}
        for target_field in target_object.fields:
            if target_field.wire not in own:
                self._unknown_property(target_object.name, target_field, plan)
            needed = target_field.required or self._rows.has("default", target_object.name, target_field.wire)
            if target_field.wire not in taken and needed:
                self._require(target_object.name, target_field, plan)

    def _missing_property(self, holder: str, field: Field, is_closed: bool) -> Plan:
        """Return the plan of a property that the target does not have."""
        if self._rows.at("preserve", holder, field.wire) is not None and not is_closed:
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
        named = self._rows.at("default", holder, source_field.wire)
        if named is not None and named.values.get("provided") == "revision":
            return ("constant", self._step.target)  # A message names the revision in which it is sent.
        arms = self._source.arms(source_field.type)
        others = tuple(arm for arm in arms if arm != _NULL)
        no_null = not target_field.required and _NULL not in self._target.arms(target_field.type)
        if no_null and others and len(others) < len(arms) and not self._target.is_any(target_field.type):
            inner = self._plan(Union(others), target_field.type, holder, source_field.wire)
            rule = self._rule(
                "null", f"{holder}.{source_field.wire}", f"{self._step.target} does not allow null there."
            )
            inner = ("match", "null", ("drop", rule), inner)
        else:
            inner = self._plan(source_field.type, target_field.type, holder, source_field.wire)
        if target_field.required and (not source_field.required or _may_remove(inner)):
            self._require(holder, target_field, plan)
        is_object = self._source.object(self._source.resolved(source_field.type)) is not None
        if source_field.required and not target_field.required and is_object:
            return ("drop_if_empty", inner)
        return inner

    def _unknown_property(self, holder: str, field: Field, plan: dict[str, dict[str, Any]]) -> None:
        """Remove a value that the source does not define under the name of a property of the target, and that is none
        of its values."""
        shape = self._target.shape(field.type)
        if shape is not None:
            reason = f"{self._step.target} defines this property with another type."
            plan["drop_misfits"][field.wire] = (shape, self._rule("misfit", f"{holder}.{field.wire}", reason))

    def _require(self, holder: str, field: Field, plan: dict[str, dict[str, Any]]) -> None:
        """Add a property that only the target requires: by a row, by its default, or as a need that must be met."""
        row = self._rows.at("default", holder, field.wire)
        defined = self._target.object(self._target.resolved(field.type))
        if row is not None:
            (action, value), *_ = row.values.items()
            if action == "use" and not self._target.allows(field.type, value):
                raise OverlayError(
                    f"{row} is untrue: {value!r} is not a value of {holder}.{field.wire} in {self._step.target}; "
                    "correct the row",
                    rule="overlay",
                    at=row.place,
                )
            plan["add"][field.wire] = ("value" if action == "use" else action, value)
        elif field.constant is not None:
            plan["add"][field.wire] = ("value", field.constant)
        elif defined is not None:  # An empty one, if it can be empty.
            plan["add"][field.wire] = ("make", ("type", self._object_plan(None, defined)))
        if field.required and plan["add"].get(field.wire, ("copy",))[0] == "copy":
            reason = f"{self._step.target} requires it, and there is no default."
            plan["require"][field.wire] = self._rule("require", f"{holder}.{field.wire}", reason)

    # ---- rules ------------------------------------------------------------------------------------------------------

    def _fitting(self, source: Type, target: Type, plan: Plan, holder: str, wire: str) -> Plan:
        """Return the plan, limited to values that fit. Other values are dropped if a row drops them, else refused."""
        if self._containment.holds(source, target):
            return plan
        row = self._rows.find("drop", f"{holder}.{wire}")
        if row is not None:
            return ("match", self._target.shape(target), plan, ("drop", self._rule_text(row, holder, wire)))
        refusal = self._refusal(f"{holder}.{wire}", f"{self._step.target} does not allow this value.")
        return ("match", self._target.shape(target), plan, refusal)

    def _refusal(self, place: str, reason: str) -> tuple[str, str]:
        return ("refuse", self._rule("refuse", place, reason))

    def _rule_text(self, row: ConversionRule | None, holder: str, wire: str) -> str:
        assert row is not None
        return self._rule(row.table, f"{holder}.{wire}", row.reason)

    def _rule(self, action: str, place: str, reason: str) -> str:
        self._step.rules[f"{action} {place}"] = reason
        return f"{action} {place}"


def _may_remove(plan: Plan) -> bool:
    """Return True if a plan may remove the value."""
    match plan:
        case ("drop" | "drop_default" | "drop_if_empty", *_):
            return True
        case ("match", _, inner, otherwise):
            return _may_remove(inner) or _may_remove(otherwise)
        case _:
            return False


def _is_composed(written: Type) -> bool:
    return isinstance(written, (Ref, Map, Array))


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
