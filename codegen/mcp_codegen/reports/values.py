"""The comparison of two types: the relation between their sets of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ..model.ir import Alias, Array, Field, Map, Method, Object, Plain, Ref, Revision, Side, Type, Union, Values

_SENDERS: Final[dict[str, tuple[Side, Side]]] = {
    "client_to_server": ("client", "server"),
    "server_to_client": ("server", "client"),
}


class Relation(Enum):
    """The relation of the newer values to the older ones; `DESCRIBED`: the same values, described differently."""

    SAME = ""
    DESCRIBED = "value-described"
    WIDER = "value-wider"
    NARROWER = "value-narrower"
    OTHER = "value-changed"


class TypeComparison:
    """The types of two revisions, and the new names of renamed types."""

    def __init__(self, older: Revision, newer: Revision, renamed: Mapping[str, str]) -> None:
        self._older = older
        self._newer = newer
        self._renamed = renamed
        new_names = (renamed.get(name, name) for name in older.types)
        self._shared = frozenset(name for name in new_names if name in newer.types)

    def relate(self, before: Type, after: Type) -> Relation:
        """Return the relation of two types. A type that both revisions have by name is compared separately, so it is
        only opened if needed."""
        if self._arms(before, self._older, self._shared) == self._arms(after, self._newer, self._shared):
            return Relation.SAME
        old_arms, new_arms = self._arms(before, self._older, frozenset()), self._arms(after, self._newer, frozenset())
        if set(old_arms) == set(new_arms):
            return Relation.SAME
        lost = not all(any(self._within(arm, other) for other in new_arms) for arm in old_arms)
        gained = not all(any(self._within(arm, other) for other in old_arms) for arm in new_arms)
        if lost:
            return Relation.OTHER if gained else Relation.NARROWER
        return Relation.WIDER if gained else Relation.DESCRIBED

    def _arms(self, written: Type, revision: Revision, closed: frozenset[str]) -> list[Type]:
        """Return the arms of a type under the names of the newer revision, with aliases outside `closed` opened."""
        match written:
            case Ref() | Union() if _is_any(written, revision):
                return [Plain("any")]
            case Ref(name):
                new_name = self._renamed.get(name, name) if revision is self._older else name
                type = revision.types.get(name)
                if isinstance(type, Alias) and new_name not in closed:
                    return self._arms(type.type, revision, closed | {new_name})
                return [Ref(new_name)]
            case Union(arms):
                return [inner for arm in arms for inner in self._arms(arm, revision, closed)]
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
        """Return True if every value of the one is a value of the other, as far as the two types show."""
        match arm, other:
            case _, Plain("any"):
                return True
            case Union(arms), _:
                return all(self._within(inner, other) for inner in arms)
            case _, Union(arms):
                return any(self._within(arm, inner) for inner in arms)
            case Values((str(),)), Plain("string", pattern=None):
                return True
            case Values((int(),)), Plain("integer" | "number"):
                return True
            case Plain(), Plain():
                kinds = (arm.kind, other.kind)
                return (kinds[0] == kinds[1] or kinds == ("integer", "number")) and _bounded(arm, other)
            case Array(), Array():
                fits = _maximum_fits(arm.max_items, other.max_items) and _minimum_fits(arm.min_items, other.min_items)
                return fits and self._within(arm.items, other.items)
            case Map(), Map():
                return self._within(arm.values, other.values)
            case Ref(), Map(Plain("any")):
                return True
            case Map(Plain("any")), Ref(name):
                # A map with arbitrary keys, some of which are properties now.
                return not any(field.required for field in self._object_fields(name))
            case _:
                return arm == other

    def _object_fields(self, name: str) -> tuple[Field, ...]:
        type = self._newer.types.get(name) or self._older.types.get(name)
        return type.fields if isinstance(type, Object) else ()


def _is_any(written: Type, revision: Revision, assumed: frozenset[str] = frozenset()) -> bool:
    """Return True if a type allows each JSON value, such as a union of all kinds whose items and members are of the
    same union."""
    match written:
        case Plain():
            return written == Plain("any")
        case Ref(name):
            type = revision.types.get(name)
            return name in assumed or (isinstance(type, Alias) and _is_any(type.type, revision, assumed | {name}))
        case Union():
            arms = list(_opened(written, revision, assumed))
            plain = all(Plain(kind) in arms for kind in ("string", "number", "boolean", "null"))
            objects = any(isinstance(arm, Map) and _is_any(arm.values, revision, assumed) for arm in arms)
            arrays = (arm.items for arm in arms if isinstance(arm, Array) and arm == Array(arm.items))
            return plain and objects and any(_is_any(items, revision, assumed) for items in arrays)
        case _:
            return False


def _opened(written: Type, revision: Revision, assumed: frozenset[str]) -> Iterator[Type]:
    """Yield the arms of a type, with aliases opened."""
    match written:
        case Union(arms):
            for arm in arms:
                yield from _opened(arm, revision, assumed)
        case Ref(name) if name not in assumed and isinstance(type := revision.types.get(name), Alias):
            yield from _opened(type.type, revision, assumed | {name})
        case _:
            yield written


def _bounded(arm: Plain, other: Plain) -> bool:
    return (
        _maximum_fits(arm.maximum, other.maximum)
        and _minimum_fits(arm.minimum, other.minimum)
        and _maximum_fits(arm.max_length, other.max_length)
        and _minimum_fits(arm.min_length, other.min_length)
        and other.pattern in (None, arm.pattern)
    )


def _maximum_fits(bound: float | None, other: float | None) -> bool:
    return other is None or (bound is not None and bound <= other)


def _minimum_fits(bound: float | None, other: float | None) -> bool:
    return other is None or (bound is not None and bound >= other)


# The directions of types: the sides that send and that receive values of each type.


@dataclass
class Directions:
    """The types that each side sends, over all compared revisions; `aliases` are the names that are not objects."""

    aliases: set[str] = field(default_factory=set[str])
    senders: dict[Side, set[str]] = field(default_factory=lambda: {"client": set[str](), "server": set[str]()})

    def of(self, type: str) -> list[Side]:
        """Return the sides that send a type. One that neither side sends counts for both, but an alias that neither
        side sends only groups messages and counts for none."""
        senders: list[Side] = [side for side, types in self.senders.items() if type in types]
        return senders or ([] if type in self.aliases else ["client", "server"])


def sender(row: Method) -> Side:
    """Return the side that sends a message."""
    return _SENDERS[row.direction][0]


def directions(*revisions: Revision) -> Directions:
    """Return the directions of all types in the messages of these revisions."""
    result = Directions()
    for revision in revisions:
        result.aliases |= {name for name, type in revision.types.items() if isinstance(type, Alias)}
        for row in revision.methods:
            requester, responder = _SENDERS[row.direction]
            reachable_types(Ref(row.type), revision, result.senders[requester])
            for response in (row.result, *(interim.type for interim in row.interim)):
                if response is not None:
                    reachable_types(Ref(response), revision, result.senders[responder])
    return result


def reachable_types(start: Type, revision: Revision, seen: set[str]) -> None:
    """Add to `seen` every type that a value of this type may contain."""
    pending = [start]
    while pending:
        match pending.pop():
            case Ref(name) if name not in seen and name in revision.types:
                seen.add(name)
                pending += _inside(revision.types[name])
            case Array(items):
                pending.append(items)
            case Map(values):
                pending.append(values)
            case Union(arms):
                pending += arms
            case _:
                pass


def _inside(type: Object | Alias) -> list[Type]:
    if isinstance(type, Alias):
        return [type.type]
    return [*(field.type for field in type.fields), *(Ref(name) for name in type.extends)]
