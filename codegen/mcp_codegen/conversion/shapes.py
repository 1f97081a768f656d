"""The shapes of types: plain data by which the runtime checks if a JSON value fits a type; and which values of one type
are values of another."""

from __future__ import annotations

import re
from typing import Any

from ..errors import is_list, is_object
from ..model.ir import Alias, Array, Field, Map, Object, Plain, Ref, Revision, Type, Union, Values

# A shape is None for any value, the name of a JSON type, the name of a record in `records`, or a tuple:
# `("values", …)`, `("list", shape)`, `("list", shape, least, most)`, `("map", shape)`, `("one_of", …)`,
# `("range", kind, minimum, maximum)`, `("text", least, most, pattern)`.
Shape = Any
_Pairs = frozenset[tuple[str, str]]

# Which JSON values a plain type has.


def allows(plain: Plain, value: Any) -> bool:
    """Return True if a value is one of a plain type."""
    match plain.kind:
        case "any":
            return True
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            if not isinstance(value, str):
                return False
            sizes = minimum_fits(len(value), plain.min_length) and maximum_fits(len(value), plain.max_length)
            return sizes and (plain.pattern is None or re.search(plain.pattern, value) is not None)
        case _:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return False
            whole = plain.kind == "number" or float(value).is_integer()
            return whole and minimum_fits(value, plain.minimum) and maximum_fits(value, plain.maximum)


def is_among(value: object, allowed: tuple[object, ...]) -> bool:
    """Return True if a value is one of these, and of the same type."""
    return any(type(value) is type(other) and value == other for other in allowed)


def maximum_fits(bound: float | None, other: float | None) -> bool:
    """Return True if what is at most `bound` is at most `other`; None is not a bound."""
    return other is None or (bound is not None and bound <= other)


def minimum_fits(bound: float | None, other: float | None) -> bool:
    """Return True if what is at least `bound` is at least `other`; None is not a bound."""
    return other is None or (bound is not None and bound >= other)


class Shapes:
    """The shapes of one revision. `records` collects the objects that they refer to, by `revision/name`."""

    def __init__(self, revision: Revision, records: dict[str, Any]) -> None:
        self.revision = revision
        self.records = records
        self._open: tuple[str, ...] = ()  # The aliases whose shapes are being made.

    def resolved(self, type: Type) -> Type:
        """Return the type that aliases stand for: a reference to an object, or a type that is not a reference."""
        while isinstance(type, Ref):
            definition = self.revision.types[type.name]
            if isinstance(definition, Object):
                return type
            type = definition.type
        return type

    def object(self, type: Type) -> Object | None:
        """Return the object that a resolved type refers to, or None."""
        definition = self.revision.types[type.name] if isinstance(type, Ref) else None
        return definition if isinstance(definition, Object) else None

    def arms(self, type: Type) -> list[Type]:
        """Return the arms of a union and of nested unions, each resolved; or the type itself."""
        resolved = self.resolved(type)
        return (
            [arm for inner in resolved.arms for arm in self.arms(inner)] if isinstance(resolved, Union) else [resolved]
        )

    def is_any(self, type: Type) -> bool:
        """Return True if every JSON value fits: the type is `any`, or has an arm for each JSON type."""
        arms = self.arms(type)
        kinds = {arm.kind for arm in arms if isinstance(arm, Plain)}
        wide = any(isinstance(arm, Map) for arm in arms) and any(isinstance(arm, Array) for arm in arms)
        return "any" in kinds or (wide and {"string", "boolean", "null"} <= kinds)

    def shape(self, type: Type) -> Shape:
        """Return the shape of a type. Inside of itself, an alias has the shape of any value."""
        if not isinstance(type, Ref) or isinstance(self.revision.types[type.name], Object):
            return self._shape(type)
        if type.name in self._open:
            return None
        outer = self._open
        self._open = (*outer, type.name)
        shape = self._shape(type)
        self._open = outer
        return shape

    def _shape(self, type: Type) -> Shape:
        if self.is_any(type):
            return None
        arms = self.arms(type)
        if len(arms) > 1:
            return ("one_of", *(self.shape(arm) for arm in arms))
        match arms[0]:
            case Ref(name):
                return self._record(name)
            case Plain():
                return _plain_shape(arms[0])
            case Values(values):
                return ("values", *values)
            case Array(items, None, None):
                return ("list", self.shape(items))
            case Array(items, most, least):
                return ("list", self.shape(items), least, most)
            case Map(values):
                return ("map", self.shape(values))
            case Union():
                raise AssertionError("the arms of a union are not unions")

    def _record(self, name: str) -> str:
        key = f"{self.revision.id}/{name}"
        if key not in self.records:
            self.records[key] = {}
            outer = self._open
            self._open = ()
            definition = self.object(Ref(name))
            fields = definition.fields if definition is not None else ()
            self.records[key] = {
                "required": [field.wire for field in fields if field.required],
                "properties": {field.wire: shape for field in fields if (shape := self.shape(field.type)) is not None},
            }
            if definition is not None and definition.closed:
                self.records[key]["closed"] = [field.wire for field in fields]
            self._open = outer
        return key

    def allows(self, type: Type, value: Any) -> bool:
        """Return True if a JSON value is one of a type."""
        return any(self._allows(arm, value) for arm in self.arms(type))

    def _allows(self, arm: Type, value: Any) -> bool:
        match arm:
            case Ref():
                defined = self.object(arm)
                return is_object(value) and defined is not None and self._is_of(defined, value)
            case Plain():
                return allows(arm, value)
            case Values(values):
                return is_among(value, values)
            case Array(items):
                sizes = (arm.min_items or 0) <= len(value) <= (arm.max_items or len(value)) if is_list(value) else False
                return sizes and all(self.allows(items, item) for item in value)
            case Map(values):
                return is_object(value) and all(self.allows(values, item) for item in value.values())
            case Union():
                raise AssertionError("the arms of a union are not unions")

    def _is_of(self, defined: Object, value: dict[str, Any]) -> bool:
        names = {field.wire for field in defined.fields}
        return (
            all(field.wire in value for field in defined.fields if field.required)
            and all(self.allows(field.type, value[field.wire]) for field in defined.fields if field.wire in value)
            and not (defined.closed and value.keys() - names)
        )


def _plain_shape(plain: Plain) -> Shape:
    if plain.kind == "string" and (plain.min_length, plain.max_length, plain.pattern) != (None, None, None):
        return ("text", plain.min_length, plain.max_length, plain.pattern)
    if plain.minimum is not None or plain.maximum is not None:
        return ("range", plain.kind, plain.minimum, plain.maximum)
    return plain.kind


def required_by(type: Object | Alias | None) -> int:
    """Return the number of properties that an object requires. Types that require more are tried first."""
    return sum(field.required for field in type.fields) if isinstance(type, Object) else 0


# Which values of a type of the source are values of a type of the target, as far as the two types show.
#
# Objects are compared by the properties that they declare: what else an object has, its plan removes where it must.


class Containment:
    """The comparison of the types of two revisions."""

    def __init__(self, source: Shapes, target: Shapes) -> None:
        self._source = source
        self._target = target

    def holds(self, source: Type, target: Type, assumed: _Pairs = frozenset()) -> bool:
        """Return True if every value of the one type is a value of the other."""
        if self._target.is_any(target):
            return True
        if self._source.is_any(source):
            return False
        arms, target_arms = self._source.arms(source), self._target.arms(target)
        return all(any(self._arm(arm, other, assumed) for other in target_arms) for arm in arms)

    def _arm(self, arm: Type, other: Type, assumed: _Pairs) -> bool:
        match arm, other:
            case Values(values), Values(allowed):
                return all(is_among(value, allowed) for value in values)
            case Values(values), Plain():
                return all(allows(other, value) for value in values)
            case Plain(), Plain():
                return _bounded(arm, other)
            case Array(items), Array(other_items):
                fits = maximum_fits(arm.max_items, other.max_items) and minimum_fits(arm.min_items, other.min_items)
                return fits and self.holds(items, other_items, assumed)
            case Map(values), Map(other_values):
                return self.holds(values, other_values, assumed)
            case Ref(), Map(values):
                return self._target.is_any(values)
            case Ref(name), Ref(other_name):
                pair = (name, other_name)
                return pair in assumed or self._objects(arm, other, assumed | {pair})
            case _:
                return False

    def _objects(self, arm: Ref, other: Ref, assumed: _Pairs) -> bool:
        source, target = self._source.object(arm), self._target.object(other)
        if source is None or target is None:
            return False
        for field in target.fields:
            own = source.field(field.wire)
            if own is None and field.required:
                return False
            if own is not None and not self._field(own, field, assumed):
                return False
        return True

    def _field(self, own: Field, field: Field, assumed: _Pairs) -> bool:
        return (own.required or not field.required) and self.holds(own.type, field.type, assumed)

    def overlap(self, source: Type, target: Type) -> bool:
        """Return True if a value of the one type may be a value of the other: of the same kind of JSON value, and of
        constants with one in common."""
        if self._source.is_any(source) or self._target.is_any(target):
            return True
        arms, target_arms = self._source.arms(source), self._target.arms(target)
        return any(_may_meet(arm, other) for arm in arms for other in target_arms)


def _may_meet(arm: Type, other: Type) -> bool:
    match arm, other:
        case Values(values), Values(allowed):
            return any(is_among(value, allowed) for value in values)
        case Values(values), Plain():
            return any(allows(other, value) for value in values)
        case Plain(), Values(values):
            return any(allows(arm, value) for value in values)
        case Plain(), Plain():
            return arm.kind == other.kind or {arm.kind, other.kind} == {"integer", "number"}
        case _:
            return isinstance(arm, Array) == isinstance(other, Array) and _is_map(arm) == _is_map(other)


def _is_map(written: Type) -> bool:
    return isinstance(written, (Ref, Map))


def _bounded(arm: Plain, other: Plain) -> bool:
    return (
        (arm.kind == other.kind or (arm.kind, other.kind) == ("integer", "number"))
        and maximum_fits(arm.maximum, other.maximum)
        and minimum_fits(arm.minimum, other.minimum)
        and maximum_fits(arm.max_length, other.max_length)
        and minimum_fits(arm.min_length, other.min_length)
        and other.pattern in (None, arm.pattern)
    )
