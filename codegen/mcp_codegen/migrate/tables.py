"""The tables of a migration: where each name of another SDK is here, and what changes besides import lines.

Import lines follow the tables of products/names, which also make the packages `mcp` and `fastmcp` by their names, and
the rows of FastMCP in `rules.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from ..paths import CHECKOUT, PACKAGE, in_checkout

Form = Literal["v1", "v2"]  # The last 1.x of the official SDK, or its 2.x.
Goal = Literal["app", "compat"]

PACKAGES: Final = ("mcp", "mcp_types", "fastmcp")
COMPAT: Final = "mcp_generated.compat"
TYPES: Final = "mcp_generated.compat.types"
_FORMS: Final[tuple[Form, ...]] = ("v1", "v2")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name is here: a module, and the name that it has there."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """The name with its module, such as `mcp_generated.compat.FastMCP`."""
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to one keyword, method, attribute, call or name. `write` is what stands there afterwards.

    The line gets a mark if there is a reason. A call with the keyword `unless` is left as it is. `wrap` is the place of
    a function that the result of an awaited call is passed to: then there is no mark.
    """

    on: str
    name: str
    reason: str
    link: str
    write: str
    drop: bool
    unless: str
    wrap: str
    to: str
    forms: tuple[str, ...]

    def holds(self, form: Form, goal: Goal) -> bool:
        """Return True if the rule is one of this form and this goal."""
        return self.to in ("", goal) and form in self.forms


class Tables:
    """The tables, read once."""

    def __init__(self) -> None:
        """Read the tables. They belong to this package, so that an error in them is a defect."""
        rules = _read(Path(__file__).with_name("rules.toml"))
        self._names: Mapping[str, Mapping[str, Any]] = rules["names"]
        self.tools: frozenset[str] = frozenset(rules["names"]["tools"]["paths"])
        self.made: frozenset[str] = frozenset(rules["names"]["made"]["paths"])
        self._rows: dict[Form, dict[str, dict[str, Place | None]]] = {}
        self._all: dict[Form, set[str]] = {}
        for form in _FORMS:
            tables = [_read(table_path(form)), _read(table_path("v2" if form == "v1" else "v1")), rules["modules"]]
            self._rows[form] = {}
            for table in tables:  # The row of the form itself counts first.
                for module, row in table.items():
                    known = self._rows[form].setdefault(module, {})
                    for name, place in _places(row):
                        if known.get(name) is None:
                            known[name] = place
            self._all[form] = {module for table in tables for module, row in table.items() if row.get("all")}
        self.rules: Mapping[str, tuple[Rule, ...]] = {
            kind: tuple(_rules(rows)) for kind, rows in rules.get("rules", {}).items()
        }
        self.strings: frozenset[str] = frozenset(rules["strings"]["functions"])
        self.lookups: frozenset[str] = frozenset(rules["strings"]["lookups"])
        self.renamed: Mapping[str, str] = rules["strings"]["renamed"]
        self.replaced: Mapping[str, str] = rules["strings"]["replaced"]
        self.requirements: Mapping[str, Any] = rules["requirements"]
        self.types_of_v1: frozenset[str] = frozenset(rules["types_of_v1"]["names"].split())
        self.kinds: Mapping[str, str] = {path: kind for kind, paths in rules["kinds"].items() for path in paths.split()}

    def is_module(self, path: str) -> bool:
        """Return True if a path is a module of another SDK that a table has."""
        return (
            path in self._rows["v2"]
            or path in PACKAGES
            or any(name.startswith(f"{path}.") for name in self._rows["v2"])
        )

    def place(self, form: Form, module: str, name: str) -> Place | None:
        """Return where a name of a module is here; None without a counterpart."""
        path = f"{module}.{name}"
        moved = self._names[form].get(path) or self._names["both"].get(path)
        if moved is not None:
            target, _, there = moved.partition(":")
            return Place(target, there)
        found = self._rows[form].get(module, {}).get(name)
        if found is None and module in self._all[form] and name not in self.types_of_v1:
            return Place(TYPES, name)
        return found

    def native(self, place: Place, goal: Goal) -> Place | None:
        """Return where the native form of a name of `compat` is; None if it has none, or if programs keep `compat`."""
        target = self._names["app"].get(place.path) if goal == "app" else None
        return None if target is None else Place(*target.split(":"))

    def split(self, path: str) -> tuple[str, str]:
        """Return the longest module that a path begins with, and the rest: `mcp.types.Tool` is (mcp.types, Tool)."""
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            if self.is_module(module := ".".join(parts[:end])):
                return module, ".".join(parts[end:])
        return "", path

    def names_of(self, form: Form, module: str) -> Mapping[str, Place]:
        """Return the names of a module that have a counterpart, for a star import."""
        return {name: place for name, place in self._rows[form].get(module, {}).items() if place is not None}

    def has_all_types(self, module: str) -> bool:
        """Return True for a module with all types, such as `mcp.types`."""
        return module in self._all["v2"]

    def find(self, table: str, form: Form, goal: Goal, kind: str, name: str) -> Rule | None:
        """Return the first rule of a table that is for a kind of object and a name."""
        for rule in self.rules.get(table, ()):
            if name == rule.name and kind in (rule.on.split() or [""]) and rule.holds(form, goal):
                return rule
        return None


@cache
def tables() -> Tables:
    """Return the tables of this package."""
    return Tables()


def table_path(form: Form) -> Path:
    """Return the path of the import table of a form: that of products/names, or its copy in an installed wheel."""
    root = CHECKOUT / "products" / "names" if in_checkout() else PACKAGE / "names"
    return root / form / "modules.toml"


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _places(row: Mapping[str, Any]) -> Iterator[tuple[str, Place | None]]:
    sources = [(TYPES, row.get("types", "")), (COMPAT, row.get("compat", "")), *row.get("from", {}).items()]
    for source, names in sources:
        module = TYPES if str(source).startswith(f"{TYPES}_v") else str(source)
        for item in names.split():
            here, _, there = item.partition("=")
            yield here, Place(module, there or here)
    for name in row.get("absent", "").split():
        yield name, None


def _rules(rows: list[dict[str, Any]]) -> Iterator[Rule]:
    for row in rows:
        for name in row["name"].split() or [""]:
            yield Rule(
                on=row.get("on", ""),
                name=name,
                reason=row.get("reason", ""),
                link=row.get("link", "by-hand"),
                write=row.get("write", ""),
                drop=row.get("drop", False),
                unless=row.get("unless", ""),
                wrap=row.get("wrap", ""),
                to=row.get("to", ""),
                forms=tuple(row.get("forms", _FORMS)),
            )
