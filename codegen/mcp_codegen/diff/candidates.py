"""Values to try for a type: few, simple ones first, and at its bounds and those of the type that it became."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from ..json_types import Json
from ..model.ir import Alias, Array, Field, Map, Object, Plain, Ref, Revision, Type, Union, Values
from ..model.patterns import matching_text

_TEXTS: Final = ("text", "", "a", "1", "https://example.org/", "aGk=")
_ANY: Final[tuple[Json, ...]] = ({}, "text", 1, 0.5, True, [], None)
_DEPTH: Final = 12
_LIMIT: Final = 200  # Values of one type: each is validated twice.


class Candidates:
    """The values to try for the types of a revision. `bounds` are numbers near which two types may differ, and texts
    of which only one may allow some."""

    def __init__(self, revision: Revision, bounds: Iterable[float | str] = ()) -> None:
        self._types = revision.types
        listed = list(bounds)
        self._texts = [bound for bound in listed if isinstance(bound, str)]
        numbers = (bound for bound in listed if not isinstance(bound, str))
        near = {number for bound in numbers for number in (bound - 1, bound, bound + 1)}
        self._numbers = (1, 0, -1, *sorted(near), 10**9)
        self._sizes = [int(number) for number in sorted(near) if 0 <= number <= 1000]

    def of(self, written: Type) -> Iterator[Json]:
        """Yield values of a type, and some that are not: a validator decides."""
        return islice(self._values(written, 0), _LIMIT)

    def with_field(self, defined: Object, wire: str) -> Iterator[Json]:
        """Yield objects of a type in which this property is missing, or has one of its values."""
        smallest = self._smallest(defined, 0)
        yield {name: value for name, value in smallest.items() if name != wire}
        field = defined.field(wire)
        for value in islice(self._values(field.type, 0), _LIMIT) if field is not None else ():
            yield {**smallest, wire: value}

    def _values(self, written: Type, depth: int) -> Iterator[Json]:
        if depth > _DEPTH:
            return
        match written:
            case Ref(name):
                yield from self._named(name, depth)
            case Plain():
                yield from self._plain(written)
            case Values(values):
                yield from values
            case Array(items):
                yield []
                yield from ([value] for value in islice(self._values(items, depth + 1), 20))
                first: Json = next(self._values(items, depth + 1), None)
                yield from ([first] * size for size in self._sizes)
            case Map(values):
                yield {}
                yield from ({"key": value} for value in islice(self._values(values, depth + 1), 20))
            case Union(arms):
                for arm in arms:
                    yield from islice(self._values(arm, depth + 1), 30)

    def _named(self, name: str, depth: int) -> Iterator[Json]:
        defined = self._types[name]
        if isinstance(defined, Alias):
            yield from self._values(defined.type, depth + 1)
            return
        smallest = self._smallest(defined, depth)
        yield smallest
        if depth < 3:
            for field in defined.fields:
                for value in islice(self._values(field.type, depth + 3), 3):
                    yield {**smallest, field.wire: value}

    def _smallest(self, defined: Object, depth: int) -> dict[str, Json]:
        return {field.wire: self._first(field, depth) for field in defined.fields if field.required}

    def _first(self, field: Field, depth: int) -> Json:
        return field.constant if field.constant is not None else next(self._values(field.type, depth + 1), None)

    def _plain(self, plain: Plain) -> Iterator[Json]:
        match plain.kind:
            case "string":
                sizes = (size for size in self._sizes if size <= 200)
                yield from (*plain.open_values, *self._texts, *_TEXTS, *("a" * size for size in sizes))
            case "integer":
                yield from (int(number) for number in self._numbers)
            case "number":
                yield from (*self._numbers, *(number + 0.5 for number in self._numbers))
            case "boolean":
                yield from (True, False)
            case "null":
                yield None
            case "any":
                yield from _ANY


def bounds_of(written: Type | None) -> Iterator[float | str]:
    """Yield the bounds that a type names, and a text for its pattern, without those of other named types."""
    match written:
        case Plain():
            text = None if written.pattern is None else matching_text(written.pattern)
            bounds = (written.minimum, written.maximum, written.min_length, written.max_length, text)
            yield from (bound for bound in bounds if bound is not None)
        case Array(items, maximum, minimum):
            yield from (bound for bound in (maximum, minimum) if bound is not None)
            yield from bounds_of(items)
        case Map(values):
            yield from bounds_of(values)
        case Union(arms):
            for arm in arms:
                yield from bounds_of(arm)
        case _:
            return
