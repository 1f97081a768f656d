"""schema/overlay.toml: facts that no schema states, each as a row with a reason.

A row names a place, the value that the generator derives there itself (`derived`, omitted if nothing can be derived)
and the value to `use` instead. It applies to every revision that has the place and that it fits, or to those in `only`:
a row does not fit if its `derived` is not what the schema gives, or if it names something that the schema has not.
Generation fails for a row that nothing uses, and for one that does not fit a revision in its `only`. A tag of
schema.ts is a row of the revision that has it: see tags.py.

| table          | place        | value                                                                           |
|----------------|--------------|---------------------------------------------------------------------------------|
| `name`         | `at`         | the name of a definition, of an inline object, or of an inline union            |
| `direction`    | `type`       | the side that sends a message that is in no union: `server_to_client`           |
| `capability`   | `method`     | the capability to declare first: `server.tools.listChanged`; empty for none     |
| `requirement`  | `at`         | the capability that params of a type, or with a property, need in addition      |
| `default`      | `at`         | the default value of a required property, which constructors fill in            |
| `essential`    | `at`         | true: without this optional property, an object would mean something else       |
| `interim`      | `params_use` | the interim result of a request whose params refer to this type                 |
| `lifecycle`    | `style`      | `roles`: the methods that the runtime must know, by role                        |
| `http`         | `style`      | how messages of this style of lifecycle are sent over HTTP                      |
| `http_without` | `feature`    | false: a feature of the `http` row that some revisions do not have              |
| `form`         | `of`         | the revision whose names a part of the runtime, such as the app, has by hand    |
| `codes`        | `style`      | the error codes that this style of lifecycle reserves, and the one sent instead |
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import CodegenError, OverlayError, is_object
from ..importer.syntax import FROM_SPECIFICATION
from .ir import Alias, Object

DIRECTIONS: Final = ("client_to_server", "server_to_client")
_TABLES: Final = {
    "name": "at",
    "direction": "type",
    "capability": "method",
    "requirement": "at",
    "default": "at",
    "essential": "at",
    "interim": "params_use",
    "lifecycle": "style",
    "http": "style",
    "http_without": "feature",
    "codes": "style",
    "form": "of",
}


@dataclass(frozen=True)
class OverlayRow:
    """One row; `used` collects the revisions in which it was applied, `unfit` those that it does not fit, and why.

    `tag` is the name of the tag in schema.ts that the row is, empty for one of overlay.toml.
    """

    table: str
    place: str
    use: Any
    derived: str | None
    only: tuple[str, ...]
    reason: str = ""
    used: set[str] = field(default_factory=set[str], compare=False)
    unfit: dict[str, str] = field(default_factory=dict[str, str], compare=False)
    tag: str = ""

    def __str__(self) -> str:
        if self.tag:
            return f"schema.ts: @{self.tag} at {self.place}"
        return f"overlay.toml: [[{self.table}]] {_TABLES[self.table]} = {self.place!r}"

    def error(self, revision: str) -> OverlayError:
        """Return the error for a row that does not fit a revision."""
        return OverlayError(
            f"{self} is out of date for {revision}: {self.unfit[revision]}; correct or remove the row, or limit it "
            "with `only` to the revisions that it fits",
            rule="overlay",
            at=self.place,
        )


@dataclass(frozen=True)
class OverlayRows:
    """The rows of one table that apply to one revision, by place. A row with `only` overrides one without."""

    revision: str
    rows: dict[str, OverlayRow]

    def choose(self, place: str, derived: str) -> str:
        """Return the value of the row for this place, or the derived value without one, and if the row does not fit."""
        row = self.rows.get(place)
        if row is None:
            return derived
        if not row.tag and (row.derived or "") != derived:
            self.leave_out(
                place,
                f"its `derived` is {row.derived or 'nothing'!r}, the schema now gives {derived or 'nothing'!r}",
            )
            return derived
        row.used.add(self.revision)
        return str(row.use)

    def use(self, place: str) -> Any:
        """Return the value of an existing row and mark it as used."""
        self.rows[place].used.add(self.revision)
        return self.rows[place].use

    def leave_out(self, place: str, reason: str) -> None:
        """Do not apply a row that does not fit this revision. Raises OverlayError for a row that names the revision in
        its `only`."""
        row = self.rows[place]
        row.unfit[self.revision] = reason
        if row.only:
            raise row.error(self.revision)
        del self.rows[place]

    def __contains__(self, place: str) -> bool:
        return place in self.rows


@dataclass(frozen=True)
class Overlay:
    """All rows of the file. `like` maps a revision to the one it was made from, whose rows apply too. `renames` maps a
    method or a property to its name in another revision: a row applies under each of the names."""

    rows: tuple[OverlayRow, ...] = ()
    like: Mapping[str, str] = field(default_factory=dict[str, str])
    renames: Mapping[str, str] = field(default_factory=dict[str, str])

    def table(self, table: str, revision: str, fits: Callable[[OverlayRow], bool] | None = None) -> OverlayRows:
        """Return the rows of a table that apply to a revision, and that fit it. Of two rows for one place, the one with
        `only` applies, and else the one with a value."""
        revision_id = self.like.get(revision) or revision
        rows = [row for row in self.rows if row.table == table and (not row.only or revision_id in row.only)]
        rows.sort(key=lambda row: (bool(row.only), bool(row.use)))
        fitting = {row.place: row for row in rows if fits is None or fits(row)}
        for place in self.renames.keys() & fitting.keys() if self.renames else ():
            for other in self._other_names(place):
                fitting.setdefault(other, fitting[place])
        return OverlayRows(revision, fitting)

    def present(self, place: str, places: Collection[str]) -> str:
        """Return the name that a method or a property has among these; its own name if it is none of them."""
        names = [place, *self._other_names(place)]
        return next((name for name in names if name in places), place)

    def _other_names(self, place: str) -> list[str]:
        """Return the names that a method or a property got one after the other."""
        names = [place]
        while (other := self.renames.get(names[-1])) is not None and other not in names:
            names.append(other)
        return names[1:]

    def check_all_used(self, revisions: Iterable[str]) -> None:
        """Raise OverlayError for the first row that no revision, or not every one in its `only`, has used."""
        ids = set(revisions)
        for row in self.rows:
            if unknown := set(row.only) - ids:
                raise OverlayError(f"{row} names {min(unknown)}, which is not a revision in schema/; correct `only`")
            if not row.used and row.unfit:
                raise row.error(next(iter(row.unfit)))
            if not row.used or set(row.only) - row.used:
                where = min(set(row.only) - row.used) if row.only else "any revision"
                raise OverlayError(f"{row} is not used in {where}: the place does not exist there; remove the row")


def read_overlay(path: Path, like: Mapping[str, str] | None = None) -> Overlay:
    """Return the rows of overlay.toml; a folder without the file has none."""
    if not path.exists():
        return Overlay()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OverlayError(f"{path}: cannot be read: {error}") from error
    return Overlay(
        tuple(_row(path, table, entry) for table, entries in tables.items() for entry in entries), like or {}
    )


def _row(path: Path, table: str, entry: Any) -> OverlayRow:
    place = _TABLES.get(table)
    if place is None:
        raise OverlayError(f"{path}: unknown table {table!r}; the tables are {', '.join(_TABLES)}")
    value = "roles" if table == "lifecycle" else "use"
    for key in (place, value, "reason"):
        if not is_object(entry) or key not in entry or (key == "reason" and not entry[key]):
            raise OverlayError(f"{path}: a row of [[{table}]] needs `{key}`: {entry}")
    if surplus := entry.keys() - {place, value, "reason", "derived", "only"}:
        raise OverlayError(f"{path}: a row of [[{table}]] has the unknown key {min(surplus)!r}; remove it: {entry}")
    if table == "direction" and entry[value] not in DIRECTIONS:
        raise OverlayError(f"{path}: a row of [[direction]] has `use` = {' or '.join(map(repr, DIRECTIONS))}: {entry}")
    return OverlayRow(
        table, entry[place], entry[value], entry.get("derived"), tuple(entry.get("only", ())), entry["reason"]
    )


# Read schema/docs.toml: one sentence for each type and property.
#
# [types]
# CallToolResult = "What a tool call gave."
#
# [properties]
# "CallToolResult.isError" = "The tool failed; `content` says why."
#
# [plain]
# names = ["name"]                                                          # need no sentence: the name says it all


@dataclass(frozen=True)
class Docs:
    """The sentences, by type name and by property (`Type.property`): the same name means other things elsewhere."""

    types: dict[str, str] = field(default_factory=dict[str, str])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    plain: tuple[str, ...] = ()

    def of_type(self, name: str) -> str:
        return self.types.get(name, "")

    def of_property(self, owner: str, wire: str) -> str:
        return self.properties.get(f"{owner}.{wire}", "")


def read_docs(path: Path) -> Docs:
    """Read docs.toml; a folder of schemas without one has no descriptions."""
    if not path.exists():
        return Docs()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CodegenError(f"{path}: cannot be read: {error}") from error
    properties = tables.get("properties", {})
    if without := next((key for key in properties if "." not in key), ""):
        raise CodegenError(f'{path}: the row {without} has no type; write "Type.{without}" for each type that has it')
    return Docs(tables.get("types", {}), properties, tuple(tables.get("plain", {}).get("names", ())))


def undocumented(types: Mapping[str, Object | Alias], docs: Docs) -> list[str]:
    """Return the types without a sentence of ours, and the properties that have none although their name does not say
    it all."""
    missing = [name for name, definition in types.items() if not _is_ours(definition.doc)]
    for definition in types.values():
        fields = definition.fields if isinstance(definition, Object) else ()
        missing += [
            f"{definition.name}.{field.wire}"
            for field in fields
            if not _is_ours(field.doc) and field.wire not in docs.plain
        ]
    return missing


def _is_ours(doc: str) -> bool:
    return doc != "" and not doc.endswith(FROM_SPECIFICATION)
