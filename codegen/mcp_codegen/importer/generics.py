"""Generic types: aliases with arguments in the place of the parameters, and the keys of a `Record` or an `Omit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .syntax import (
    AllOf,
    ArrayOf,
    Declaration,
    Keyword,
    Literal,
    Name,
    ObjectLiteral,
    PropertyOf,
    TsType,
    TupleOf,
    TypeAliasDeclaration,
    UnionOf,
)


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


def size(written: TsType | None) -> int:
    """Return how many types are written in a type, itself included."""
    match written:
        case None:
            return 0
        case Name(_, parts) | UnionOf(parts) | AllOf(parts):
            return 1 + sum(size(part) for part in parts)
        case ArrayOf(part) | PropertyOf(part, _):
            return 1 + size(part)
        case TupleOf(items, _, rest):
            return 1 + sum(size(item) for item in items) + size(rest)
        case ObjectLiteral(members, index):
            return 1 + sum(size(member.type) for member in members) + size(index)
        case _:
            return 1


def literal_texts(written: TsType, types: Mapping[str, Declaration]) -> list[str]:
    """Return the texts of a literal, of a union of literals, or of an alias of these; nothing for another type."""
    alias = types.get(written.name) if isinstance(written, Name) else None
    written = alias.type if isinstance(alias, TypeAliasDeclaration) else written
    arms = written.arms if isinstance(written, UnionOf) else (written,)
    texts = [arm.value for arm in arms if isinstance(arm, Literal) and isinstance(arm.value, str)]
    return texts if len(texts) == len(arms) else []


def without_nothing(written: TsType) -> TsType:
    """Return a type without `null` and `undefined`, as `NonNullable` gives it."""
    if not isinstance(written, UnionOf):
        return written
    arms = tuple(arm for arm in written.arms if arm not in (Keyword("null"), Keyword("undefined")))
    return arms[0] if len(arms) == 1 else UnionOf(arms)
