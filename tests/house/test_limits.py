"""How large hand-written files, folders, functions and lists of parameters may be."""

from __future__ import annotations

import ast

import pytest
from support.source_tree import definitions, python_files, relative, syntax_tree

HAND_WRITTEN = ("runtime", "products", "codegen", "tests", "examples", "benchmarks", "docs")

MAX_FILE_LINES = 700  # A file is as big as its idea.
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7  # That may be given by position. Parameters that are given by keyword only do not count.
MAX_MODULES = 25  # In a folder, `__init__.py` and `conftest.py` not counted.


@pytest.mark.parametrize("folder", HAND_WRITTEN)
def test_files_are_short(folder: str) -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(folder)}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


@pytest.mark.parametrize("folder", HAND_WRITTEN)
def test_functions_are_short(folder: str) -> None:
    too_long: dict[str, int] = {}
    for path in python_files(folder):
        for node in definitions(path):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if not isinstance(node, ast.ClassDef) and lines > MAX_FUNCTION_LINES:
                too_long[f"{relative(path)}:{node.lineno}: {node.name}"] = lines
    assert too_long == {}


@pytest.mark.parametrize("folder", HAND_WRITTEN)
def test_functions_take_few_parameters_by_position(folder: str) -> None:
    """Dataclasses and NamedTuples have fields, not parameters."""
    too_many: dict[str, int] = {}
    for path in python_files(folder):
        for node in definitions(path):
            if not isinstance(node, ast.ClassDef):
                names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
                if (count := len([name for name in names if name not in ("self", "cls")])) > MAX_PARAMETERS:
                    too_many[f"{relative(path)}:{node.lineno}: {node.name}"] = count
    assert too_many == {}


@pytest.mark.parametrize("folder", HAND_WRITTEN)
def test_folders_hold_few_modules(folder: str) -> None:
    counts: dict[str, int] = {}
    for path in python_files(folder):
        if path.name not in ("__init__.py", "conftest.py"):
            counts[relative(path.parent)] = counts.get(relative(path.parent), 0) + 1
    assert {name: count for name, count in counts.items() if count > MAX_MODULES} == {}


@pytest.mark.parametrize("folder", [*HAND_WRITTEN, "generated"])
def test_modules_have_docstrings(folder: str) -> None:
    assert [relative(path) for path in python_files(folder) if not ast.get_docstring(syntax_tree(path))] == []


def test_long_tests_get_their_mark_in_their_module_or_by_a_listed_name() -> None:
    """tests/conftest.py leaves out other modules with `-m long`: a name that gives the mark has to stand there."""
    paths = [path for path in python_files("tests") if not path.name.startswith("test_")]
    marking = {relative(path) for path in paths if "mark.long" in path.read_text(encoding="utf-8")}
    assert marking == {
        "tests/support/stores/homes.py",
        "tests/support/each_way.py",
        "tests/support/http/observed_clients.py",
        "tests/conftest.py",
        "tests/support/matrices.py",
    }
