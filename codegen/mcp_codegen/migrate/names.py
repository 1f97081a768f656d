"""Where a name of the official SDK or of FastMCP is here: the tables of it, references and the lines that import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider, QualifiedName, QualifiedNameProvider, QualifiedNameSource

from ..paths import CHECKOUT, PACKAGE, in_checkout, read_toml

Form = Literal["v1", "v2"]  # The last 1.x of the official SDK, or its 2.x.
Goal = Literal["app", "compat"]

PACKAGES: Final = ("mcp", "mcp_types", "fastmcp")
COMPAT: Final = "mcp_generated.compat"
TYPES: Final = "mcp_generated.compat.types"
_FORMS: Final[tuple[Form, ...]] = ("v1", "v2")
_CONNECTIONS: Final = ("session", "client")
_WIDTH: Final = 100  # Longer lines of several names get parentheses.


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

    name: str
    on: str = ""
    reason: str = ""
    link: str = "by-hand"
    write: str = ""
    drop: bool = False
    unless: str = ""
    wrap: str = ""
    to: str = ""
    forms: Sequence[str] = _FORMS

    def holds(self, form: Form, goal: Goal) -> bool:
        """Return True if the rule is one of this form and this goal."""
        return self.to in ("", goal) and form in self.forms


class Tables:
    """The tables, read once."""

    def __init__(self) -> None:
        """Read the tables. They belong to this package, so that an error in them is a defect."""
        rules = read_toml(Path(__file__).with_name("rules.toml"))
        self._names: Mapping[str, Mapping[str, Any]] = rules["names"]
        self.tools: frozenset[str] = frozenset(rules["names"]["tools"]["paths"])
        self.made: frozenset[str] = frozenset(rules["names"]["made"]["paths"])
        self._rows: dict[Form, dict[str, dict[str, Place | None]]] = {}
        self._all: dict[Form, set[str]] = {}
        for form in _FORMS:
            tables = [
                read_toml(table_path(form)),
                read_toml(table_path("v2" if form == "v1" else "v1")),
                rules["modules"],
            ]
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


def _places(row: Mapping[str, Any]) -> Iterator[tuple[str, Place | None]]:
    sources = [(TYPES, row.get("types", "")), (COMPAT, row.get("compat", "")), *row.get("from", {}).items()]
    for source, names in sources:
        module = TYPES if str(source).startswith(f"{TYPES}_v") else str(source)
        for item in names.split():
            here, _, there = item.partition("=")
            is_own = module.partition(".")[0] in PACKAGES  # Only the wheel of these names has it.
            yield here, None if is_own else Place(module, there or here)
    for name in row.get("absent", "").split():
        yield name, None


def _rules(rows: list[dict[str, Any]]) -> Iterator[Rule]:
    for row in rows:
        for name in row["name"].split() or [""]:
            fields: dict[str, Any] = {**row, "name": name}
            yield Rule(**fields)


# What the names of a module mean: which are of another SDK, and which variables hold its servers and contexts.
#
# Names are resolved by the scopes of the syntax tree, not by their spelling. The kind of a variable is what is assigned
# to it in this module or what it is annotated with; of a variable with several kinds, the first one counts.


class Names:
    """The names of one module."""

    def __init__(
        self, wrapper: MetadataWrapper, tables: Tables, known: Mapping[str, str], packages: Sequence[str] = PACKAGES
    ) -> None:
        """Resolve the names of a module.

        Args:
            wrapper: The module with its metadata.
            tables: The tables of the migration.
            known: Kinds of names that it imports from modules of its project.
            packages: The packages whose names are known.
        """
        self._packages = packages
        self._wrapper = wrapper
        self._tables = tables
        self.variables: dict[str, str] = dict(known)
        self.classes: dict[str, str] = {}  # Classes of the module that derive from one of an SDK, with its kind.
        self.used: set[str] = set()
        found = _Spelled(packages)
        wrapper.module.visit(found)
        self.used = found.names
        self.called = found.called
        self._bound = found.bound  # Scopes cost much: only these names can be of an SDK.
        wrapper.module.visit(_Variables(self))

    def line(self, node: cst.CSTNode) -> int:
        """Return the line of a node in the file as it was."""
        return self._wrapper.resolve(PositionProvider)[node].start.line

    def path(self, node: cst.CSTNode) -> str:
        """Return the path of an imported name of another SDK; an empty text for any other expression."""
        if _root(node) not in self._bound:
            return ""
        found: Any = self._wrapper.resolve(QualifiedNameProvider).get(node, ())
        names = cast("Iterable[QualifiedName]", found() if callable(found) else found)
        for name in sorted(names, key=lambda name: name.name):
            if name.source is QualifiedNameSource.IMPORT and name.name.partition(".")[0] in self._packages:
                return name.name
        return ""

    def kind(self, node: cst.BaseExpression) -> str:
        """Return the kind of an expression: server, lowlevel, context, client, session and others; empty if unknown."""
        if isinstance(node, cst.Await):
            return self.kind(node.expression)
        if isinstance(node, cst.Call):
            path = self.path(node.func)
            if path and self._tables.has_all_types(self._tables.split(path)[0]):
                return "type"
            if isinstance(node.func, cst.Attribute) and self.kind(node.func.value) in _CONNECTIONS:
                return "type"  # The result of a request.
            return self._tables.kinds.get(path, "") or self.classes.get(_root(node.func), "") or self._returned(node)
        if isinstance(node, cst.Subscript):
            return self.kind(node.value)
        if (path := self.path(node)) and (kind := self._tables.kinds.get(path)):
            return kind
        if isinstance(node, cst.Name):
            return self.variables.get(node.value, "")
        if isinstance(node, cst.Attribute):
            return self.variables.get(node.attr.value, "")
        return ""

    def _returned(self, node: cst.Call) -> str:
        """Return the kind of what a function of the program returns, by its annotation."""
        return self.variables.get(f"{node.func.value}()", "") if isinstance(node.func, cst.Name) else ""

    def type_kind(self, node: cst.BaseExpression) -> str:
        """Return the kind of the objects that an annotation names."""
        for part in _parts(node):
            if kind := self._tables.kinds.get(self.path(part), ""):
                return kind
        return ""


def _root(node: cst.CSTNode) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the names of an annotation: of `Context[A, B] | None`, first `Context`."""
    if isinstance(node, cst.BinaryOperation):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, cst.Subscript):
        yield from _parts(node.value)
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                yield from _parts(element.slice.value)
    else:
        yield node


class _Spelled(cst.CSTVisitor):
    """Collects all names of a module, those that it calls, and those that its import lines take from another SDK."""

    def __init__(self, packages: Sequence[str]) -> None:
        super().__init__()
        self._packages = packages
        self.names: set[str] = set()
        self.called: set[str] = set()
        self.bound: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name):
            self.called.add(node.func.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.called |= {_root(base.value) for base in node.bases}  # Their objects are made, too.

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False  # The name of an attribute is not a name of the module.

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            if (root := _root(alias.name)) in self._packages:
                self.bound.add(alias.evaluated_alias or root)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if node.module is not None and not node.relative and _root(node.module) in self._packages:
            if isinstance(node.names, cst.ImportStar):
                self.bound.add("*")
            else:
                self.bound |= {alias.evaluated_alias or alias.evaluated_name for alias in node.names}


class _Variables(cst.CSTVisitor):
    """Collects the kinds of variables."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        for base in node.bases:
            if kind := self._names.type_kind(base.value):
                self._names.classes[node.name.value] = kind

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        if node.returns is not None and (kind := self._names.type_kind(node.returns.annotation)):
            self._names.variables.setdefault(f"{node.name.value}()", kind)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._bind(target.target, self._names.kind(node.value))

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        kind = self._names.kind(node.value) if node.value is not None else ""
        self._bind(node.target, kind or self._names.type_kind(node.annotation.annotation))

    def visit_Param(self, node: cst.Param) -> None:
        if node.annotation is not None:
            self._bind(node.name, self._names.type_kind(node.annotation.annotation))

    def visit_WithItem(self, node: cst.WithItem) -> None:
        if node.asname is not None:
            self._bind(node.asname.name, self._names.kind(node.item))

    def _bind(self, target: cst.BaseExpression, kind: str) -> None:
        name = target.value if isinstance(target, cst.Name) else None
        if isinstance(target, cst.Attribute):
            name = target.attr.value
        if kind and name:
            self._names.variables.setdefault(name, kind)


# Import lines: one statement of another SDK becomes one or more of this project.


@dataclass(slots=True)
class Replaced:
    """What stands in the place of one import: statements, how many names they move, and reasons for marks."""

    statements: list[cst.ImportFrom | cst.Import] = field(default_factory=list[cst.ImportFrom | cst.Import])
    comments: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    moved: int = 0
    reasons: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class ImportLines:
    """How the import lines of one module change."""

    def __init__(
        self,
        tables: Tables,
        form: Form,
        used: set[str],
        choose: Callable[[Place, str], tuple[Place, str]],
        why: Callable[[str, str], tuple[str, str]],
    ) -> None:
        """Create the rewriter.

        Args:
            tables: The import tables.
            form: The major version of the SDK that the module was written for.
            used: The names that stand in the module, for star imports.
            choose: Returns the place of a name, and its local name, for the goal of the migration.
            why: Returns the reason and the link for a name without a counterpart.
        """
        self._tables = tables
        self._form: Form = form
        self._used = used
        self._choose = choose
        self._why = why

    def replaced(self, node: cst.Import | cst.ImportFrom) -> Replaced | None:
        """Return what stands in the place of an import; None for one of other packages."""
        if isinstance(node, cst.Import):
            return self._plain(node)
        if node.relative or node.module is None:
            return None
        module = dotted(node.module)
        if module.partition(".")[0] not in PACKAGES:
            return None
        if isinstance(node.names, cst.ImportStar):
            return self._star(node, module)
        return self._names(node, module, node.names)

    def _plain(self, node: cst.Import) -> Replaced | None:
        ours = [alias for alias in node.names if dotted(alias.name).partition(".")[0] in PACKAGES]
        if not ours:
            return None
        found = Replaced()
        rest = [alias for alias in node.names if alias not in ours]
        for alias in ours:
            path, local = dotted(alias.name), _local(alias)
            if alias.asname is not None and self._tables.has_all_types(path):
                found.statements.append(_import(COMPAT, [("types", local)]))
            else:
                found.statements.append(_import(*_parent(COMPAT, local or path.partition(".")[0])))
            found.moved += 1
        if rest:
            last = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            found.statements.insert(0, node.with_changes(names=[*rest[:-1], last]))
        return found

    def _star(self, node: cst.ImportFrom, module: str) -> Replaced:
        if self._tables.has_all_types(module):  # `types` makes its names when they are asked for: it has no star.
            return Replaced([node.with_changes(module=_expression(f"{TYPES}_v2"))], moved=1)
        names = [name for name in sorted(self._tables.names_of(self._form, module)) if name in self._used]
        why = (f"from {module} import * was replaced by the names that stand in this file", "star-imports")
        if not names:
            return Replaced([node], reasons=[(f"from {module} import *: no name of it is known here", "star-imports")])
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            place = self._tables.place(self._form, module, name)
            if place is not None:
                place, local = self._choose(place, name)
                groups.setdefault(place.module, []).append((place.name, local))
        statements: list[cst.ImportFrom | cst.Import] = [_import(*group) for group in groups.items()]
        return Replaced(statements, moved=len(names), reasons=[why])

    def _names(self, node: cst.ImportFrom, module: str, aliases: Sequence[cst.ImportAlias]) -> Replaced:
        found = Replaced()
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in aliases:
            name = dotted(alias.name)
            local = _local(alias) or name
            place = self._tables.place(self._form, module, name)
            if place is None and self._tables.is_module(path := f"{module}.{name}"):
                place = Place(COMPAT, "types") if self._tables.has_all_types(path) else Place(*_split(COMPAT))
            if place is None:
                found.reasons.append(self._why(module, name))
                groups.setdefault(module, []).append(alias)
                continue
            place, local = self._choose(place, local)
            found.moved += 1
            groups.setdefault(place.module, []).append(_alias(alias, place.name, local))
        for index, (target, members) in enumerate(groups.items()):
            if len(groups) == 1:
                found.statements.append(node.with_changes(module=_expression(target), names=members))
            elif index == 0:
                found.statements.append(node.with_changes(module=_expression(target), names=_closed(node, members)))
            else:
                found.statements.append(_import(target, [(dotted(item.name), _local(item)) for item in members]))
                found.comments[index] = [text for item in members for text in _comments(item)]
        return found


def dotted(node: cst.BaseExpression) -> str:
    """Return the text of a dotted name."""
    if isinstance(node, cst.Attribute):
        return f"{dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def import_of(place: Place, local: str) -> cst.SimpleStatementLine:
    """Return the line that imports a name under a local name."""
    return cst.SimpleStatementLine([_import(place.module, [(place.name, local)])])


def _split(path: str) -> tuple[str, str]:
    module, _, name = path.rpartition(".")
    return module, name


def _parent(path: str, local: str) -> tuple[str, list[tuple[str, str]]]:
    module, name = _split(path)
    return module, [(name, local)]


def _local(alias: cst.ImportAlias) -> str:
    return "" if alias.asname is None else dotted(cst.ensure_type(alias.asname.name, cst.Name))


def _expression(path: str) -> cst.Attribute | cst.Name:
    expression = cst.parse_expression(path)
    assert isinstance(expression, cst.Attribute | cst.Name), "a dotted name"
    return expression


def _alias(alias: cst.ImportAlias, name: str, local: str) -> cst.ImportAlias:
    """Return an alias with another name, laid out as it was."""
    asname = None if local == name else cst.AsName(name=cst.Name(local))
    if asname is not None and alias.asname is not None and _local(alias) == local:
        asname = alias.asname
    return alias.with_changes(name=cst.Name(name), asname=asname)


def _closed(node: cst.ImportFrom, members: list[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """Return aliases without a comma after the last one, unless parentheses hold them."""
    if node.lpar is not None and isinstance(members[-1].comma, cst.Comma):
        after = members[-1].comma.whitespace_after
        if isinstance(after, cst.ParenthesizedWhitespace):
            # The last alias of all knows how the closing parenthesis is indented.
            names = node.names
            assert not isinstance(names, cst.ImportStar), "names, not a star"
            last = names[-1].comma
            closing = last.whitespace_after if isinstance(last, cst.Comma) else cst.ParenthesizedWhitespace()
            if isinstance(closing, cst.ParenthesizedWhitespace):
                closing = closing.with_changes(first_line=after.first_line)
            comma = members[-1].comma.with_changes(whitespace_after=closing)
            return [*members[:-1], members[-1].with_changes(comma=comma)]
    return [*members[:-1], members[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def _import(module: str, names: Sequence[tuple[str, str]]) -> cst.ImportFrom:
    parts = [name if local in ("", name) else f"{name} as {local}" for name, local in names]
    line = f"from {module} import {', '.join(parts)}"
    if len(line) > _WIDTH and len(parts) > 1:
        line = f"from {module} import (\n    " + ",\n    ".join(parts) + ",\n)"
    statement = cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine).body[0]
    return cst.ensure_type(statement, cst.ImportFrom)


def _comments(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Comment):
        yield node.value
    for child in node.children:
        yield from _comments(child)
