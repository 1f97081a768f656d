"""schema/conversions.toml goes in: what of one revision becomes what of its neighbour, each row with its reason.

| table     | place    | what it says                                                                       |
|-----------|----------|------------------------------------------------------------------------------------|
| `rename`  | `type`   | `use` is the same type under the name that the neighbour has for it                  |
| `become`  | `type`   | a type that the neighbour lacks becomes `use`, of its own revision, made as in `with` |
| `spread`  | `at`     | a list where the neighbour has one: its holder is said once for each item             |
| `first`   | `at`     | a list where the neighbour has one: the first item is kept                            |
| `keep`    | `at`     | a property that the neighbour does not name is left as it is                          |
| `drop`    | `at`     | a property that the neighbour does not have, or has no room for                       |
| `refuse`  | `at`     | a property without which the message would mean something else                       |
| `default` | `at`     | a property that the neighbour requires: `use` it, or what is `given`, or a `copy`       |
| `method`  | `method` | who answers a method that the other side does not have                               |
| `code`    | `method` | `use` is the error code that a method has in the revisions that still send it        |
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
    "become": "type",
    "spread": "at",
    "first": "at",
    "keep": "at",
    "drop": "at",
    "refuse": "at",
    "default": "at",
    "method": "method",
    "code": "method",
}
_TEXT_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "rename": frozenset({"use"}),
    "become": frozenset({"use", "with"}),
    "default": frozenset({"use", "given", "copy"}),
    "method": frozenset({"answer"}),
    "code": frozenset({"use"}),
}


@dataclass
class ConversionRule:
    """One row; `used` tells whether it has decided something."""

    table: str
    place: str
    text: Mapping[str, Any]
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
                raise OverlayError(f"{row} is there twice")
            self._index[row.table, row.place] = row

    def find(self, table: str, place: str) -> ConversionRule | None:
        """The row for this place, marked as used."""
        row = self._index.get((table, place))
        if row is not None:
            row.used = True
        return row

    def at(self, table: str, holder: str, wire: str) -> ConversionRule | None:
        """The row for a property, that for one place before those for many; marked as used."""
        places = (f"{holder}.{wire}", f"*.{wire}", f"{holder}.*")
        return next((row for place in places if (row := self.find(table, place)) is not None), None)

    def has(self, table: str, holder: str, wire: str) -> bool:
        """Whether there is a row for exactly this property; it does not count as used."""
        return (table, f"{holder}.{wire}") in self._index

    def has_type(self, table: str, name: str) -> bool:
        """Whether there is a row for this type; it does not count as used."""
        return (table, name) in self._index

    def peek(self, table: str, place: str) -> ConversionRule:
        """The row of a place that is known to have one, not marked as used."""
        return self._index[table, place]

    def check_all_used(self) -> None:
        """Raise OverlayError for the first row that has decided nothing."""
        for row in self.rows:
            if not row.used:
                raise OverlayError(f"{row} is not used: no two neighbours differ there, remove the row")


def read_conversions(path: Path) -> Conversions:
    """Read conversions.toml; a folder of schemas without one has no rows."""
    if not path.exists():
        return Conversions()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise OverlayError(f"{path}: cannot be read: {fault}") from fault
    return Conversions(tuple(_rows(path, tables)))


def _rows(path: Path, tables: Mapping[str, Any]) -> Iterator[ConversionRule]:
    for table, entries in tables.items():
        place = _PLACES.get(table)
        if place is None:
            raise OverlayError(f"{path}: there is no table {table!r}; the tables are {', '.join(_PLACES)}")
        for entry in entries:
            if not is_object(entry) or not isinstance(entry.get(place), str) or not entry.get("reason"):
                raise OverlayError(f"{path}: a row of [[{table}]] needs {place} and reason: {entry}")
            says = {key: value for key, value in entry.items() if key not in (place, "reason")}
            if surplus := says.keys() - _TEXT_KEYS.get(table, frozenset()):
                raise OverlayError(f"{path}: a row of [[{table}]] has an unknown key {min(surplus)!r}: {entry}")
            yield ConversionRule(table, entry[place], says, entry["reason"])
