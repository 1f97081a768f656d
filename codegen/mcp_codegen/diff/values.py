"""Two types go in, how the values of the one relate to those of the other comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from ..model.ir import (
    Alias,
    Array,
    Field,
    Map,
    Object,
    Plain,
    Ref,
    Revision,
    Type,
    Union,
    Values,
)


class Relation(Enum):
    """How the values allowed later relate to those allowed before; `DESCRIBED`: the same, said in other words."""

    SAME = ""
    DESCRIBED = "value-described"
    WIDER = "value-wider"
    NARROWER = "value-narrower"
    OTHER = "value-changed"


class Compared:
    """Two revisions, and the names that types of the older have in the newer."""

    def __init__(self, older: Revision, newer: Revision, renamed: Mapping[str, str]) -> None:
        self._older = older
        self._newer = newer
        self._renamed = renamed
        new_names = (renamed.get(name, name) for name in older.types)
        self._shared = frozenset(name for name in new_names if name in newer.types)

    def relate(self, before: Type, after: Type) -> Relation:
        """What is behind a name that both have is compared by itself, so the name is looked into only if need be."""
        if self._arms(before, self._older, self._shared) == self._arms(after, self._newer, self._shared):
            return Relation.SAME
        mine, theirs = self._arms(before, self._older, frozenset()), self._arms(after, self._newer, frozenset())
        if set(mine) == set(theirs):
            return Relation.SAME
        lost = not all(any(self._within(arm, other) for other in theirs) for arm in mine)
        gained = not all(any(self._within(arm, other) for other in mine) for arm in theirs)
        if lost:
            return Relation.OTHER if gained else Relation.NARROWER
        return Relation.WIDER if gained else Relation.DESCRIBED

    def _arms(self, written: Type, revision: Revision, closed: frozenset[str]) -> list[Type]:
        """The forms of a type, aliases that are not closed opened, under the names of the newer revision."""
        match written:
            case Ref(name):
                now = self._renamed.get(name, name) if revision is self._older else name
                each = revision.types.get(name)
                if isinstance(each, Alias) and now not in closed:
                    return self._arms(each.type, revision, closed | {now})
                return [Ref(now)]
            case Union(arms):
                return [form for arm in arms for form in self._arms(arm, revision, closed)]
            case Values(values):
                return [Values((value,)) for value in values]
            case Array(items):
                return [replace(written, items=self._one(items, revision, closed))]
            case Map(values):
                return [Map(self._one(values, revision, closed))]
            case Plain():
                return [written]

    def _one(self, written: Type, revision: Revision, closed: frozenset[str]) -> Type:
        arms = self._arms(written, revision, closed)
        return arms[0] if len(arms) == 1 else Union(tuple(sorted(arms, key=repr)))

    def _within(self, arm: Type, other: Type) -> bool:
        """Whether every value of the one is a value of the other, as far as that can be seen from the two alone."""
        match arm, other:
            case _, Plain("any"):
                return True
            case Union(arms), _:
                return all(self._within(one, other) for one in arms)
            case _, Union(arms):
                return any(self._within(arm, one) for one in arms)
            case Values((str(),)), Plain("string", pattern=None):
                return True
            case Values((int(),)), Plain("integer" | "number"):
                return True
            case Plain(), Plain():
                kinds = (arm.kind, other.kind)
                return (kinds[0] == kinds[1] or kinds == ("integer", "number")) and _bounded(arm, other)
            case Array(), Array():
                fits = _at_most(arm.max_items, other.max_items) and _at_least(arm.min_items, other.min_items)
                return fits and self._within(arm.items, other.items)
            case Map(), Map():
                return self._within(arm.values, other.values)
            case Ref(), Map(Plain("any")):
                return True
            case Map(Plain("any")), Ref(name):
                # Free keys, some of which got a meaning.
                return not any(field.required for field in self._object_fields(name))
            case _:
                return arm == other

    def _object_fields(self, name: str) -> tuple[Field, ...]:
        each = self._newer.types.get(name) or self._older.types.get(name)
        return each.fields if isinstance(each, Object) else ()


def _bounded(arm: Plain, other: Plain) -> bool:
    return (
        _at_most(arm.maximum, other.maximum)
        and _at_least(arm.minimum, other.minimum)
        and _at_most(arm.max_length, other.max_length)
        and _at_least(arm.min_length, other.min_length)
        and other.pattern in (None, arm.pattern)
    )


def _at_most(bound: float | None, other: float | None) -> bool:
    return other is None or (bound is not None and bound <= other)


def _at_least(bound: float | None, other: float | None) -> bool:
    return other is None or (bound is not None and bound >= other)
