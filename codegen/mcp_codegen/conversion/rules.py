"""Conversion rules: the rows of schema/conversions.toml. Each row states how a part of one revision converts to a
neighbouring revision, and why.

| table      | place    | rule                                                                                       |
|------------|----------|--------------------------------------------------------------------------------------------|
| `rename`   | `type`   | the neighbour has the same type under the name `use`                                       |
|            | `at`     | the neighbour has the same property as `use`, in the type and in those that extend it      |
|            | `method` | the neighbour has the same method under the name `use`                                     |
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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import OverlayError, is_list, is_object
from ..paths import read_toml

# The places that a row of a table may have.
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "rename": ("type", "at", "method"),
    "replace": ("type",),
    **dict.fromkeys(("flatten", "first", "preserve", "drop", "refuse", "default"), ("at",)),
    **dict.fromkeys(("method", "code"), ("method",)),
}
# The keys of its values, and what they must be. Rows of other tables have no values.
_VALUES: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "rename": (frozenset({"use"}), "the other name as `use`"),
    "replace": (frozenset({"use", "with"}), "the name of a type as `use` and a template as `with`"),
    "default": (frozenset({"use", "provided", "copy"}), "one of `use`, `provided` and `copy`"),
    "method": (frozenset({"answer"}), "an `answer`, which is runtime, refuse or ignore"),
    "code": (frozenset({"use"}), "the number of an error as `use`"),
}
_ANSWERS: Final = ("runtime", "refuse", "ignore")


@dataclass
class ConversionRule:
    """One row; `kind` is the key of its place, and `used` is True once it was applied."""

    table: str
    place: str
    values: Mapping[str, Any]
    reason: str
    kind: str = ""
    used: bool = False

    def __post_init__(self) -> None:
        self.kind = self.kind or _PLACES[self.table][0]

    def __str__(self) -> str:
        return f"conversions.toml: [[{self.table}]] {self.kind} = {self.place!r}"


@dataclass(frozen=True)
class Conversions:
    """All rows of the file."""

    rows: tuple[ConversionRule, ...] = ()
    _index: dict[tuple[str, str], ConversionRule] = field(default_factory=dict[tuple[str, str], ConversionRule])
    _renames: dict[str, dict[str, ConversionRule]] = field(default_factory=dict[str, "dict[str, ConversionRule]"])

    def __post_init__(self) -> None:
        for row in self.rows:
            index = self._renames.setdefault(row.kind, {}) if row.table == "rename" else self._index
            place: Any = row.place if row.table == "rename" else (row.table, row.place)
            if place in index:
                raise OverlayError(f"{row} is in the file twice; remove one of the two rows")
            index[place] = row

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

    def renames(self, kind: str) -> Mapping[str, ConversionRule]:
        """Return the rows that rename types (`type`), properties (`at`) or methods (`method`), by their place."""
        return self._renames.get(kind, {})

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
    return Conversions(tuple(_rows(path, read_toml(path, kind=OverlayError))))


def _rows(path: Path, tables: Mapping[str, Any]) -> Iterator[ConversionRule]:
    for table, entries in tables.items():
        kinds = _PLACES.get(table)
        if kinds is None:
            raise OverlayError(f"{path}: unknown table {table!r}; the tables are {', '.join(_PLACES)}")
        if not is_list(entries):
            raise OverlayError(f"{path}: {table} is not a table of rows; write each row below [[{table}]]")
        for entry in entries:
            yield _row(path, table, kinds, entry)


def _row(path: Path, table: str, kinds: tuple[str, ...], entry: Any) -> ConversionRule:
    places = [kind for kind in kinds if is_object(entry) and isinstance(entry.get(kind), str)]
    if len(places) != 1 or not isinstance(entry.get("reason"), str) or not entry["reason"]:
        names = " or ".join(f"`{kind}`" for kind in kinds)
        raise OverlayError(f"{path}: a row of [[{table}]] needs {names} and `reason`: {entry}")
    kind = places[0]
    values = {key: value for key, value in entry.items() if key not in (kind, "reason")}
    keys, needed = _VALUES.get(table, (frozenset[str](), ""))
    if surplus := values.keys() - keys:
        raise OverlayError(f"{path}: a row of [[{table}]] has the unknown key {min(surplus)!r}; remove it: {entry}")
    if not _is_complete(table, values):
        raise OverlayError(f"{path}: a row of [[{table}]] needs {needed}: {entry}")
    if table == "rename" and not _is_rename(kind, entry[kind], values["use"]):
        raise OverlayError(
            f"{path}: a row of [[rename]] needs another name as `use`, and the type of a property before its name, "
            f"such as at = 'Tool.title' and use = 'label': {entry}"
        )
    return ConversionRule(table, entry[kind], values, entry["reason"], kind)


def _is_complete(table: str, values: Mapping[str, Any]) -> bool:
    """Return True if a row of this table has the values that it needs."""
    match table:
        case "rename":
            return isinstance(values.get("use"), str) and bool(values["use"])
        case "replace":
            return isinstance(values.get("use"), str) and is_object(values.get("with"))
        case "default":
            texts = (values.get(name, "") for name in ("provided", "copy"))
            return len(values) == 1 and all(isinstance(text, str) for text in texts)
        case "method":
            return values.get("answer") in _ANSWERS
        case "code":
            return type(values.get("use")) is int
        case _:
            return True


def _is_rename(kind: str, place: str, use: str) -> bool:
    """Return True if a row names two names, and a property with the type that has it."""
    holder, _, wire = place.partition(".")
    return use != (wire if kind == "at" else place) and (kind != "at" or bool(holder and wire and wire != "*"))
