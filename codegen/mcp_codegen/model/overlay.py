"""schema/overlay.toml goes in: what no schema says, each as a row with a reason.

A row names a place, the value that the generator derives there by itself (`derived`, left out where nothing follows)
and the value to `use` instead. It holds for every revision in which the place exists, or for those in `only`. A row
that nothing uses, or whose `derived` is no longer what the schema gives, fails generation.

| table        | place        | value                                                                            |
|--------------|--------------|----------------------------------------------------------------------------------|
| `name`       | `at`         | the name of a definition, of an inline object, or of an inline union               |
| `capability` | `method`     | what must be declared: `server.tools.listChanged`; empty for nothing               |
| `requirement`     | `at`         | the capability that params of a type, or with a property, need besides their method's |
| `default`    | `at`         | the usual value of a required property, which constructors fill in                 |
| `interim`    | `params_use` | a type that may answer before the result, where the params refer to this type      |
| `lifecycle`  | `style`      | `roles`: the methods the runtime has to know, by what it knows them as             |
| `http`       | `style`      | how messages of this style of lifecycle travel over HTTP                           |
| `http_without` | `feature`  | false: what `http` says of the style does not hold for some revisions              |
| `codes`      | `style`      | the error codes that are not sent in this style of lifecycle, and what is instead  |
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import OverlayError
from ..json_types import is_object

_TABLES: Final = {
    "name": "at",
    "capability": "method",
    "requirement": "at",
    "default": "at",
    "interim": "params_use",
    "lifecycle": "style",
    "http": "style",
    "http_without": "feature",
    "codes": "style",
}


@dataclass(frozen=True)
class OverlayRow:
    """One row; `used` collects the revisions that it decided something in."""

    table: str
    place: str
    use: Any
    derived: str | None
    only: tuple[str, ...]
    reason: str = ""
    used: set[str] = field(default_factory=set[str], compare=False)

    def __str__(self) -> str:
        return f"overlay.toml: [[{self.table}]] {_TABLES[self.table]} = {self.place!r}"


@dataclass(frozen=True)
class OverlayRows:
    """The rows of one table that hold for one revision, by place; a row for this revision alone wins."""

    revision: str
    rows: dict[str, OverlayRow]

    def choose(self, place: str, derived: str) -> str:
        """The value of the row for this place, or what was derived."""
        row = self.rows.get(place)
        if row is None:
            return derived
        if (row.derived or "") != derived:
            raise OverlayError(
                f"{row} is out of date for {self.revision}: it expects {row.derived or 'nothing'!r} to be derived, "
                f"the schema now gives {derived or 'nothing'!r}",
                rule="overlay",
                at=place,
            )
        row.used.add(self.revision)
        return str(row.use)

    def use(self, place: str) -> Any:
        """The value of a row that is known to exist, marked as used."""
        self.rows[place].used.add(self.revision)
        return self.rows[place].use

    def __contains__(self, place: str) -> bool:
        return place in self.rows


@dataclass(frozen=True)
class Overlay:
    """All rows of the file; `like` names the revision whose rows hold for another, made from it, as well."""

    rows: tuple[OverlayRow, ...] = ()
    like: Mapping[str, str] = field(default_factory=dict[str, str])

    def table(self, table: str, revision: str) -> OverlayRows:
        whose = self.like.get(revision) or revision
        here = [row for row in self.rows if row.table == table and (not row.only or whose in row.only)]
        return OverlayRows(revision, {row.place: row for row in sorted(here, key=lambda row: bool(row.only))})

    def check_all_used(self, revisions: Iterable[str]) -> None:
        """Raise OverlayError for the first row that no revision, or not every one it names, has used."""
        known = set(revisions)
        for row in self.rows:
            if unknown := set(row.only) - known:
                raise OverlayError(f"{row} names {min(unknown)}, which is not a revision in schema/")
            if not row.used or set(row.only) - row.used:
                where = min(set(row.only) - row.used) if row.only else "any revision"
                raise OverlayError(f"{row} is not used in {where}: the place does not exist there, remove the row")


def read_overlay(path: Path, like: Mapping[str, str] | None = None) -> Overlay:
    """Read overlay.toml; a folder of schemas without one has no rows."""
    if not path.exists():
        return Overlay()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise OverlayError(f"{path}: cannot be read: {fault}") from fault
    return Overlay(
        tuple(_row(path, table, entry) for table, entries in tables.items() for entry in entries), like or {}
    )


def _row(path: Path, table: str, entry: Any) -> OverlayRow:
    place = _TABLES.get(table)
    if place is None:
        raise OverlayError(f"{path}: there is no table {table!r}; the tables are {', '.join(_TABLES)}")
    value = "roles" if table == "lifecycle" else "use"
    for key in (place, value, "reason"):
        if not is_object(entry) or key not in entry or (key == "reason" and not entry[key]):
            raise OverlayError(f"{path}: a row of [[{table}]] has no {key}: {entry}")
    if surplus := entry.keys() - {place, value, "reason", "derived", "only"}:
        raise OverlayError(f"{path}: a row of [[{table}]] has an unknown key {min(surplus)!r}: {entry}")
    return OverlayRow(
        table, entry[place], entry[value], entry.get("derived"), tuple(entry.get("only", ())), entry["reason"]
    )
