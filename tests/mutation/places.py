"""The places of a file that can be mutated, and what stands there then.

Operators: comparison, boundary, boolean, branch, constant, statement, await, raise, result. Annotations, docstrings,
texts for people, abstract methods and what only type checkers see are left out.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass

OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
KEY = re.compile(r"[A-Za-z0-9_./:-]{1,40}\Z")  # A string that a program compares, not one that people read.
NOT_RUN = ("TypeVar", "ParamSpec", "cast", "getLogger", "TypeAliasType", "NewType")


@dataclass(frozen=True)
class Mutation:
    """One change: the operator, its place, and the text before and after it."""

    file: str
    line: int
    operator: str
    start: int  # Offsets into the bytes of the file.
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """Return the file with this change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


class _Places(ast.NodeVisitor):
    """Collects `(operator, node, text)` of the nodes that run."""

    def __init__(self) -> None:
        self.places: list[tuple[str, ast.expr | ast.stmt, str]] = []

    def add(self, operator: str, node: ast.expr | ast.stmt, text: str) -> None:
        self.places.append((operator, node, text))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not any(getattr(base, "id", getattr(base, "attr", "")) == "Protocol" for base in node.bases):
            self._bodies(node.decorator_list, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        defaults = [value for value in (*node.args.defaults, *node.args.kw_defaults) if value is not None]
        self._bodies(defaults, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _bodies(self, *parts: list[ast.expr] | list[ast.stmt]) -> None:
        for part in parts:
            for node in part:
                self.visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and getattr(node.annotation, "id", "") != "TypeAlias":
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return
        self._branch(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._branch(node.test)
        self.generic_visit(node)

    def _branch(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare):  # Those are the operator `comparison`.
            self.add("branch", test, f"(not ({ast.unparse(test)}))")

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, table in (("comparison", OPPOSITES), ("boundary", BOUNDARIES)):
            for index, kind in enumerate(node.ops):
                if type(kind) in table:
                    changed = copy.deepcopy(node)
                    changed.ops[index] = table[type(kind)]()
                    self.add(operator, node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self.add("boolean", node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add("constant", node, str(not value))
        elif isinstance(value, int | float):
            self.add("constant", node, repr(value + 1))
        elif isinstance(value, str) and KEY.match(value):
            self.add("constant", node, repr(value + "X"))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts of messages are for people."""

    def visit_Call(self, node: ast.Call) -> None:
        if getattr(node.func, "id", getattr(node.func, "attr", "")) not in NOT_RUN:
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Await):
            self.add("await", node, "pass")
        elif isinstance(node.value, ast.Call):
            self.add("statement", node, "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add("raise", node, "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.add("result", node, "return None")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            return
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self.add("statement", node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add("statement", node, "pass")
        self.visit(node.value)

    def visit_Continue(self, node: ast.Continue | ast.Break) -> None:
        self.add("statement", node, "pass")

    visit_Break = visit_Continue


def mutations(file: str, source: bytes) -> Iterator[Mutation]:
    """Yield all mutations of a file. A few are the same program, or none: see `is_another_program`."""
    visitor = _Places()
    visitor.visit(ast.parse(source))
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for operator, node, text in visitor.places:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        yield Mutation(file, node.lineno, operator, start, end, source[start:end].decode(), text)


def is_another_program(mutation: Mutation, source: bytes) -> bool:
    """Tell whether a mutation compiles, and changes more than the layout."""
    try:
        changed = ast.parse(mutation.applied(source))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))
