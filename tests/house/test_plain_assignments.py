"""Each attribute is assigned in a line of its own: `self.a, self.b = x, y` hides which value goes where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.source_tree import ROOT, python_files, relative, syntax_tree

# What is generated is here for the templates.
FOLDERS = ("runtime", "products", "codegen", "generated", "tests", "benchmarks", "examples", "docs", ".ci")


def packed(tree: ast.AST) -> Iterator[int]:
    """Yield the lines where a tuple with an attribute is assigned."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                pass
            case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
                targets = [target]
            case ast.withitem(optional_vars=ast.expr() as target):
                targets = [target]
            case _:
                continue
        for target in targets:
            if isinstance(target, ast.Tuple | ast.List) and any(map(_is_assigned, ast.walk(target))):
                yield target.lineno


def _is_assigned(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)


def places(*paths: Path) -> list[str]:
    return [f"{relative(path)}:{line}" for path in paths for line in packed(syntax_tree(path))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_attributes_are_assigned_one_by_one(folder: str) -> None:
    assert places(*python_files(folder)) == []


def test_attributes_are_assigned_one_by_one_in_the_root() -> None:
    assert places(*sorted(ROOT.glob("*.py"))) == []


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("self.a, self.b = x, y", 1),
        ("x, self.a = f()", 1),
        ("*x, self.a = f()", 1),
        ("[x, (y, self.a)] = f()", 1),
        ("z = x, self.a = f()", 1),
        ("for x, self.a in f(): pass", 1),
        ("with f() as (x, self.a): pass", 1),
        ("x, y = self.a, self.b", 0),
        ("x[self.a], y = f()", 0),
        ("self.a = x", 0),
        ("self.a = self.b = x", 0),
        ("with f() as self.a: pass", 0),
    ],
)
def test_what_counts(code: str, count: int) -> None:
    assert len(list(packed(ast.parse(code)))) == count
