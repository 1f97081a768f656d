"""What the names of a module mean: which are of another SDK, and which variables hold its servers and contexts.

Names are resolved by the scopes of the syntax tree, not by their spelling. The kind of a variable is what is assigned
to it in this module or what it is annotated with; of a variable with several kinds, the first one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import libcst as cst
from libcst.metadata import (
    MetadataWrapper,
    PositionProvider,
    QualifiedName,
    QualifiedNameProvider,
    QualifiedNameSource,
)

from .tables import PACKAGES, Tables

_CONNECTIONS: Final = ("session", "client")


class Names:
    """The names of one module."""

    def __init__(
        self,
        wrapper: MetadataWrapper,
        tables: Tables,
        known: Mapping[str, str],
        packages: Sequence[str] = PACKAGES,
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
        return False  # The name of an attribute is no name of the module.

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
