"""How large the hand-written packages are, and how many imports stand inside functions. The numbers only fall."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ratchets import assert_keeps, assert_only_falls
from support.source_tree import python_files, relative, syntax_tree

# To be 110 files and 12,000 code lines in the core of the runtime, and 330 files with all products.
MAX_FILES = {"runtime": 595, "codegen": 110}
MAX_CODE_LINES = {"runtime": 49_500, "codegen": 15_500}
FREE_FILES = 15  # A limit is at most so many above what is there.
FREE_CODE_LINES = 750

IMPORTS_IN_FUNCTIONS = {"runtime": 218, "codegen": 44}  # To be 80 in the runtime.

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(source: str) -> int:
    """Return how many lines have a token that is neither a comment nor a part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - set(_docstring_lines(ast.parse(source))))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str())) as first, *_]):
                pass
            case _:
                continue
        yield from range(first.lineno, (first.end_lineno or 0) + 1)


def imports_in_functions(path: Path) -> list[str]:
    functions = [
        node for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    nodes = {node for function in functions for node in ast.walk(function)}
    return [f"{relative(path)}:{node.lineno}" for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize("folder", MAX_FILES)
def test_packages_have_few_files(folder: str) -> None:
    assert_keeps(len(python_files(folder)), MAX_FILES[folder], FREE_FILES)


@pytest.mark.parametrize("folder", MAX_CODE_LINES)
def test_packages_have_few_lines_of_code(folder: str) -> None:
    lines = sum(code_lines(path.read_text(encoding="utf-8")) for path in python_files(folder))
    assert_keeps(lines, MAX_CODE_LINES[folder], FREE_CODE_LINES)


@pytest.mark.parametrize("folder", IMPORTS_IN_FUNCTIONS)
def test_imports_in_functions_become_fewer(folder: str) -> None:
    places = [place for path in python_files(folder) for place in imports_in_functions(path)]
    assert_only_falls(places, IMPORTS_IN_FUNCTIONS[folder])


def test_a_line_of_code_has_a_token_of_code() -> None:
    source = '''"""A docstring
of two lines."""

# A comment.
x = [  # A comment beside code.
    1,

]
text = """two
lines"""


def f():
    """Return nothing."""
'''
    assert code_lines(source) == 6
