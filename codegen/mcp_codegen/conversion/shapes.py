"""Types of a revision go in; plain ones, and the shapes by which a program tells whether a JSON value fits, come out."""

from __future__ import annotations

from typing import Any

from ..model.ir import (
    Alias,
    Array,
    Map,
    Object,
    Plain,
    Ref,
    Revision,
    Type,
    Union,
    Values,
)

# A shape is None for any value, the name of a kind, the name of a record in `records`, or a tuple: `("values", …)`,
# `("list", shape)`, `("map", shape)`, `("one_of", …)`, `("range", kind, least, most)`.
Shape = Any


class Shapes:
    """The shapes of one revision; `records` collects the objects that they refer to, by `revision/name`."""

    def __init__(self, revision: Revision, records: dict[str, Any]) -> None:
        self.revision = revision
        self.records = records

    def resolved(self, type: Type) -> Type:
        """The type behind its aliases: a reference to an object, or what is no reference."""
        while isinstance(type, Ref):
            each = self.revision.types[type.name]
            if isinstance(each, Object):
                return type
            type = each.type
        return type

    def object(self, type: Type) -> Object | None:
        """The object a resolved type refers to, if it is one."""
        each = self.revision.types[type.name] if isinstance(type, Ref) else None
        return each if isinstance(each, Object) else None

    def arms(self, type: Type) -> list[Type]:
        """What a type may be: the arms of a union and of the unions in it, each resolved; or the type alone."""
        plain = self.resolved(type)
        return [arm for each in plain.arms for arm in self.arms(each)] if isinstance(plain, Union) else [plain]

    def is_any(self, type: Type) -> bool:
        """Whether every JSON value fits: it says so, or it has an arm for each kind of value."""
        arms = self.arms(type)
        kinds = {arm.kind for arm in arms if isinstance(arm, Plain)}
        wide = any(isinstance(arm, Map) for arm in arms) and any(isinstance(arm, Array) for arm in arms)
        return "any" in kinds or (wide and {"string", "boolean", "null"} <= kinds)

    def shape(self, type: Type) -> Shape:
        if self.is_any(type):
            return None
        arms = self.arms(type)
        if len(arms) > 1:
            return ("one_of", *(self.shape(arm) for arm in arms))
        match arms[0]:
            case Ref(name):
                return self._record(name)
            case Plain(kind, None, None):
                return kind
            case Plain(kind, least, most):
                return ("range", kind, least, most)
            case Values(values):
                return ("values", *values)
            case Array(items):
                return ("list", self.shape(items))
            case Map(values):
                return ("map", self.shape(values))
            case Union():
                raise AssertionError("the arms of a union are no unions")

    def _record(self, name: str) -> str:
        key = f"{self.revision.id}/{name}"
        if key not in self.records:
            self.records[key] = {}
            each = self.object(Ref(name))
            fields = each.fields if each is not None else ()
            self.records[key] = {
                "required": [field.wire for field in fields if field.required],
                "properties": {field.wire: shape for field in fields if (shape := self.shape(field.type)) is not None},
            }
        return key


def required_by(each: Object | Alias | None) -> int:
    """How many properties an object requires: the more, the better a value that has them all is known by them."""
    return sum(field.required for field in each.fields) if isinstance(each, Object) else 0
