"""Conversion rules: the rows of schema/conversions.toml. Each row states how a part of one revision converts to a
neighbouring revision, and why.

| table      | place    | rule                                                                                       |
|------------|----------|--------------------------------------------------------------------------------------------|
| `rename`   | `type`   | the neighbour has the same type under the name `use`                                       |
| `replace`  | `type`   | the neighbour lacks the type: replace it by a `use`, filled from the template `with`        |
| `flatten`  | `at`     | the neighbour allows one item, not a list: repeat the object that holds it for each item    |
| `first`    | `at`     | the neighbour allows one item, not a list: use the first item                               |
| `preserve` | `at`     | the neighbour does not define the property: leave it unchanged                              |
| `drop`     | `at`     | the neighbour does not define the property, or not with this value: remove it               |
| `refuse`   | `at`     | the message would change its meaning without the property: raise an error                  |
| `default`  | `at`     | the neighbour requires the property: `use` a value, a `provided` one, or a `copy`           |
| `method`   | `method` | which side answers a method that the neighbour does not define                              |
| `code`     | `method` | `use` is the error code of the method in the revisions that still send it                   |
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import OverlayError
from ..json_types import is_object

_PLACES: Final[Mapping[str, str]] = {
    "rename": "type",
    "replace": "type",
    "flatten": "at",
    "first": "at",
    "preserve": "at",
    "drop": "at",
    "refuse": "at",
    "default": "at",
    "method": "method",
    "code": "method",
}
_VALUE_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "rename": frozenset({"use"}),
    "replace": frozenset({"use", "with"}),
    "default": frozenset({"use", "provided", "copy"}),
    "method": frozenset({"answer"}),
    "code": frozenset({"use"}),
}


@dataclass
class ConversionRule:
    """One row; `used` is True once it was applied."""

    table: str
    place: str
    values: Mapping[str, Any]
    reason: str
    used: bool = False

    def __str__(self) -> str:
        return f"conversions.toml: [[{self.table}]] {_PLACES[self.table]} = {self.place!r}"


@dataclass(frozen=True)
class Conversions:
    """All rows of the file."""

    rows: tuple[ConversionRule, ...] = ()
    _index: dict[tuple[str, str], ConversionRule] = field(default_factory=dict[tuple[str, str], ConversionRule])

    def __post_init__(self) -> None:
        for row in self.rows:
            if (row.table, row.place) in self._index:
                raise OverlayError(f"{row} is in the file twice; remove one of the two rows")
            self._index[row.table, row.place] = row

    def find(self, table: str, place: str) -> ConversionRule | None:
        """Return the row for this place and mark it as used; None without one."""
        row = self._index.get((table, place))
        if row is not None:
            row.used = True
        return row

    def at(self, table: str, holder: str, wire: str) -> ConversionRule | None:
        """Return the row for a property and mark it as used. A row for one place overrides one with `*`."""
        places = (f"{holder}.{wire}", f"*.{wire}", f"{holder}.*")
        return next((row for place in places if (row := self.find(table, place)) is not None), None)

    def has(self, table: str, holder: str, wire: str) -> bool:
        """Return True if there is a row for exactly this property. Does not mark it as used."""
        return (table, f"{holder}.{wire}") in self._index

    def has_type(self, table: str, name: str) -> bool:
        """Return True if there is a row for this type. Does not mark it as used."""
        return (table, name) in self._index

    def peek(self, table: str, place: str) -> ConversionRule:
        """Return the row of a place that has one. Does not mark it as used."""
        return self._index[table, place]

    def check_all_used(self) -> None:
        """Raise OverlayError for the first unused row."""
        for row in self.rows:
            if not row.used:
                raise OverlayError(f"{row} is not used: no two neighbouring revisions differ there; remove the row")


def read_conversions(path: Path) -> Conversions:
    """Return the rows of conversions.toml; a folder without the file has none."""
    if not path.exists():
        return Conversions()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OverlayError(f"{path}: cannot be read: {error}") from error
    return Conversions(tuple(_rows(path, tables)))


def _rows(path: Path, tables: Mapping[str, Any]) -> Iterator[ConversionRule]:
    for table, entries in tables.items():
        place = _PLACES.get(table)
        if place is None:
            raise OverlayError(f"{path}: unknown table {table!r}; the tables are {', '.join(_PLACES)}")
        for entry in entries:
            if not is_object(entry) or not isinstance(entry.get(place), str) or not entry.get("reason"):
                raise OverlayError(f"{path}: a row of [[{table}]] needs `{place}` and `reason`: {entry}")
            values = {key: value for key, value in entry.items() if key not in (place, "reason")}
            if surplus := values.keys() - _VALUE_KEYS.get(table, frozenset()):
                raise OverlayError(
                    f"{path}: a row of [[{table}]] has the unknown key {min(surplus)!r}; remove it: {entry}"
                )
            yield ConversionRule(table, entry[place], values, entry["reason"])
