"""Import lines: one statement of another SDK becomes one or more of this project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import libcst as cst

from .tables import COMPAT, PACKAGES, TYPES, Form, Place, Tables

_WIDTH: Final = 100  # Longer lines of several names get parentheses.


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
