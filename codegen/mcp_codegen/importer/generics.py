"""Generic type aliases: their types with arguments in the place of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .syntax import AllOf, ArrayOf, Keyword, Name, ObjectLiteral, PropertyOf, TsType, TupleOf, UnionOf


def substitute(written: TsType, arguments: Mapping[str, TsType]) -> TsType:
    """Return a type with arguments in the place of the names of parameters."""
    match written:
        case Name(name, ()) if name in arguments:
            return arguments[name]
        case Name(name, inner):
            return Name(name, tuple(substitute(argument, arguments) for argument in inner))
        case ArrayOf(items):
            return ArrayOf(substitute(items, arguments))
        case TupleOf(items, minimum, rest):
            tail = None if rest is None else substitute(rest, arguments)
            return TupleOf(tuple(substitute(item, arguments) for item in items), minimum, tail)
        case UnionOf(arms):
            return UnionOf(tuple(substitute(arm, arguments) for arm in arms))
        case AllOf(parts):
            return AllOf(tuple(substitute(part, arguments) for part in parts))
        case PropertyOf(owner, name):
            return PropertyOf(substitute(owner, arguments), name)
        case ObjectLiteral(members, index):
            return ObjectLiteral(
                tuple(replace(member, type=substitute(member.type, arguments)) for member in members),
                None if index is None else substitute(index, arguments),
            )
        case _:
            return written


def without_nothing(written: TsType) -> TsType:
    """Return a type without `null` and `undefined`, as `NonNullable` gives it."""
    if not isinstance(written, UnionOf):
        return written
    arms = tuple(arm for arm in written.arms if arm not in (Keyword("null"), Keyword("undefined")))
    return arms[0] if len(arms) == 1 else UnionOf(arms)
