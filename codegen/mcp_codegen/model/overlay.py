"""schema/overlay.toml: facts that no schema states, each as a row with a reason; and docs.toml and official.toml, whose
rows are described below.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from ..errors import CodegenError, OverlayError, is_list, is_object
from ..importer.syntax import FROM_SPECIFICATION
from ..paths import read_toml
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

_FORM_TABLES: Final = tuple(
    "name alias written literal constant field undeclared order copy deprecated inlined moved no_base extra also "
    "without wire wire_extra wire_name wire_class wire_absent".split()
)
_ALL: Final = "*"


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
                place, f"its `derived` is {row.derived or 'nothing'!r}, the schema now gives {derived or 'nothing'!r}"
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
    tables = read_toml(path, kind=OverlayError)
    if (wrong := next((table for table, entries in tables.items() if not is_list(entries)), None)) is not None:
        raise OverlayError(f"{path}: {wrong} is not a table of rows; write each row below [[{wrong}]]")
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
    only = entry.get("only", [])
    if not is_list(only) or not all(isinstance(text, str) for text in (entry[place], entry["reason"], *only)):
        raise OverlayError(
            f"{path}: `{place}` and `reason` of a row of [[{table}]] are texts, and `only` is a list of revisions: "
            f"{entry}"
        )
    if table == "direction" and entry[value] not in DIRECTIONS:
        raise OverlayError(f"{path}: a row of [[direction]] has `use` = {' or '.join(map(repr, DIRECTIONS))}: {entry}")
    return OverlayRow(table, entry[place], entry[value], entry.get("derived"), tuple(only), entry["reason"])


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
    tables = read_toml(path)
    types, properties, plain = (tables.get(name, {}) for name in ("types", "properties", "plain"))
    names = plain.get("names", []) if is_object(plain) else ""
    if not (is_object(types) and is_object(properties) and is_list(names) and all(isinstance(n, str) for n in names)):
        raise CodegenError(f'{path}: [types] and [properties] are tables of texts, and [plain] has names = ["name"]')
    rows = {**types, **properties}
    if (wrong := next((key for key, text in rows.items() if not isinstance(text, str)), None)) is not None:
        raise CodegenError(f"{path}: the row {wrong} is not a text: {rows[wrong]!r}")
    if without := next((key for key in properties if "." not in key), ""):
        raise CodegenError(f'{path}: the row {without} has no type; write "Type.{without}" for each type that has it')
    return Docs(types, properties, tuple(names))


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


# schema/official.toml: the forms that the official Python SDK gives to the types of the protocol.
#
# `[forms.KEY]` has how a form names and declares types. What no rule gives is a row with a reason; `only` names the
# forms that it is for, and without it a row is for all. Types and properties have their names in the protocol.
#
# | table        | `at`                                 | `use`                                                        |
# |--------------|--------------------------------------|-------------------------------------------------------------|
# | `name`       | a type, or a class of capabilities   | its name                                                     |
# | `alias`      | a property                           | the name of its type, which is an alias                      |
# | `written`    | a name                               | the alias that it is, as Python                              |
# | `literal`    | a property with literals             | the prefix of the constants that its values are              |
# | `constant`   | a name                               | the value of a constant that the protocol does not have      |
# | `field`      | a property                           | its type, as Python; without `default` it is required        |
# | `undeclared` | a property                           | none: it is not declared                                     |
# | `order`      | a type                               | its first properties, in order; at `*` the last of all       |
# | `copy`       | a type                               | the name of a second class with the same properties          |
# | `deprecated` | a type                               | the old name of its class                                    |
# | `inlined`    | a base                               | none: its properties, or its type, are written in its place  |
# | `moved`      | a base                               | the base that has its properties                             |
# | `no_base`    | a base                               | none: it is not one                                          |
# | `extra`      | a class                              | what becomes of unknown properties: `allow` or `ignore`      |
# | `also`       | a type that no message needs         | none: it has a class                                         |
# | `without`    | a category of messages               | none: they are in no union and no table                      |
# | `wire`       | a property in the types of a version | its type, as Python, in the modules of one version           |
# | `wire_extra` | a class in those modules             | what becomes of unknown properties                           |


class FormRow(BaseModel, extra="forbid", frozen=True):
    """One fact: a place, a value, and the reason why no rule gives it."""

    at: str
    use: str | int | tuple[str, ...] = ""
    default: str | None = None
    only: tuple[str, ...] = ()
    reason: str

    @property
    def text(self) -> str:
        """Return the value as a text."""
        return str(self.use)


class Form(BaseModel, extra="forbid", frozen=True):
    """One form. `until` is the newest revision that it knows, `package` the folder or the module of its output.

    `wire_names`: attributes have the names of the protocol, and unknown properties are kept. `root_unions`: unions of
    messages are RootModels. `nested_meta`: the class of `_meta` stands in that of params. `default_constants` are the
    properties whose only value is their default. `uri` is the type of URIs, as Python. `shared` are the styles of
    lifecycle whose revisions are all validated as the newest of them.
    """

    sdk: str
    until: str
    package: str
    wire_names: bool = False
    root_unions: bool = False
    nested_meta: bool = False
    default_constants: tuple[str, ...] = ()
    uri: str = "str"
    shared: tuple[str, ...] = ()
    rows: dict[str, dict[str, FormRow]] = {}

    @property
    def name(self) -> str:
        """Return the name of the form for the command line."""
        return self.sdk.replace(" ", "-")

    def row(self, table: str, at: str) -> FormRow | None:
        """Return the row for a place; None if there is none."""
        return self.rows.get(table, {}).get(at)

    def places(self, table: str) -> tuple[str, ...]:
        """Return the places of a table."""
        return tuple(self.rows.get(table, {}))

    def texts(self, table: str) -> dict[str, str]:
        """Return the values of a table by their places."""
        return {at: row.text for at, row in self.rows.get(table, {}).items()}

    def order(self, type: str) -> tuple[str, ...]:
        """Return the properties that a type declares first, in their order."""
        row = self.row("order", type)
        return row.use if row is not None and isinstance(row.use, tuple) else ()

    def leaves_out(self, type: Object | Alias) -> bool:
        """Return True for a type of a category that the form leaves out."""
        return bool({*self.places("without")} & {*type.category.split("/")})

    @property
    def last(self) -> tuple[str, ...]:
        """Return the properties that every type declares last, in their order."""
        return self.order(_ALL)


class Forms(BaseModel, frozen=True):
    """The forms by their keys."""

    forms: dict[str, Form] = {}


def read_forms(path: Path) -> Forms:
    """Read official.toml; a folder of schemas without one has no forms. Raises OverlayError for what is not right."""
    if not path.is_file():
        return Forms()
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        forms: dict[str, Any] = tables.pop("forms", {})
        if unknown := sorted(tables.keys() - set(_FORM_TABLES)):
            raise OverlayError(f"{path.name}: unknown table {unknown[0]!r}; the tables are {', '.join(_FORM_TABLES)}")
        rows = {table: [FormRow.model_validate(row) for row in entries] for table, entries in tables.items()}
        return Forms(forms={key: Form(**form, rows=_rows_of(key, rows)) for key, form in forms.items()})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError, TypeError) as error:
        raise OverlayError(f"{path.name}: {error}") from error


def _rows_of(form: str, rows: dict[str, list[FormRow]]) -> dict[str, dict[str, FormRow]]:
    return {table: dict(_chosen(form, found)) for table, found in rows.items()}


def _chosen(form: str, rows: list[FormRow]) -> Iterator[tuple[str, FormRow]]:
    """Yield the rows for a form by their places; one with `only` comes after one without."""
    for row in sorted(rows, key=lambda row: bool(row.only)):
        if not row.only or form in row.only:
            yield row.at, row
