"""The shapes of types: plain data by which the runtime checks if a JSON value fits a type."""

from __future__ import annotations

from typing import Any

from ..json_types import is_list, is_object
from ..model.ir import Alias, Array, Map, Object, Plain, Ref, Revision, Type, Union, Values
from .values import allows, is_among

# A shape is None for any value, the name of a JSON type, the name of a record in `records`, or a tuple:
# `("values", …)`, `("list", shape)`, `("list", shape, least, most)`, `("map", shape)`, `("one_of", …)`,
# `("range", kind, minimum, maximum)`, `("text", least, most, pattern)`.
Shape = Any


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
