"""The markers of test functions, read from the source: any selection of tests sees those of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from support.project import TESTS


class MarkedTest(NamedTuple):
    """A test function that carries a marker, and the names of its arguments."""

    path: str
    name: str
    arguments: frozenset[str]


@cache
def marked_tests(marker: str) -> dict[str, list[MarkedTest]]:
    """Return the tests that carry `@pytest.mark.<marker>("id", ...)`, by each of its ids."""
    tests: dict[str, list[MarkedTest]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                arguments = frozenset(arg.arg for arg in node.args.args)
                test = MarkedTest(str(path.relative_to(TESTS)), node.name, arguments)
                for decorator in node.decorator_list:
                    for id in _ids(decorator, marker):
                        tests.setdefault(id, []).append(test)
    return tests


def _ids(decorator: ast.expr, marker: str) -> Iterator[str]:
    for node in ast.walk(decorator):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{marker}":
            yield from (ast.literal_eval(argument) for argument in node.args)
