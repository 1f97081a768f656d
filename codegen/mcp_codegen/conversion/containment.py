"""Which values of a type of the source are values of a type of the target, as far as the two types show.

Objects are compared by the properties that they declare: what else an object has, its plan removes where it must.
"""

from __future__ import annotations

from ..model.ir import Array, Field, Map, Plain, Ref, Type, Values
from .shapes import Shapes
from .values import allows, is_among, maximum_fits, minimum_fits

_Pairs = frozenset[tuple[str, str]]


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
