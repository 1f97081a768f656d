"""schema/official.toml: the forms that the official Python SDK gives to the types of the protocol.

`[forms.KEY]` has how a form names and declares types. What no rule gives is a row with a reason; `only` names the forms
that it is for, and without it a row is for all. Types and properties have their names in the protocol.

| table        | `at`                                 | `use`                                                          |
|--------------|--------------------------------------|----------------------------------------------------------------|
| `name`       | a type, or a class of capabilities   | its name                                                       |
| `alias`      | a property                           | the name of its type, which is an alias                        |
| `written`    | a name                               | the alias that it is, as Python                                |
| `literal`    | a property with literals             | the prefix of the constants that its values are                |
| `constant`   | a name                               | the value of a constant that the protocol does not have        |
| `field`      | a property                           | its type, as Python; without `default` it is required    |
| `undeclared` | a property                           | none: it is not declared                                       |
| `order`      | a type                               | its first properties, in order; at `*` the last of all    |
| `copy`       | a type                               | the name of a second class with the same properties            |
| `deprecated` | a type                               | the old name of its class                                      |
| `inlined`    | a base                               | none: its properties, or its type, are written in its place    |
| `moved`      | a base                               | the base that has its properties                               |
| `no_base`    | a base                               | none: it is not one                                            |
| `extra`      | a class                              | what becomes of unknown properties: `allow` or `ignore`        |
| `also`       | a type that no message needs         | none: it has a class                                           |
| `without`    | a category of messages               | none: they are in no union and no table                        |
| `wire`       | a property in the types of a version | its type, as Python, in the modules of one version             |
| `wire_extra` | a class in those modules             | what becomes of unknown properties                             |
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from ..errors import OverlayError
from .ir import Alias, Object

_TABLES: Final = (
    *("name", "alias", "written", "literal", "constant", "field", "undeclared", "order", "copy", "deprecated"),
    *(
        "inlined",
        "moved",
        "no_base",
        "extra",
        "also",
        "without",
        "wire",
        "wire_extra",
        "wire_name",
        "wire_class",
        "wire_absent",
    ),
)
_ALL: Final = "*"


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
        if unknown := sorted(tables.keys() - set(_TABLES)):
            raise OverlayError(f"{path.name}: unknown table {unknown[0]!r}; the tables are {', '.join(_TABLES)}")
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
