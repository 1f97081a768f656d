"""The tables beside this come in; no row is without a test there is, and no row of the lists they answer is missing."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from .advisories import ABSENT, ADVISORIES
from .faults import ELSEWHERE, ROWS, Proofs
from .rules import LATER

TESTS = Path(__file__).resolve().parent.parent
FAULTS = TESTS.parent.parent / "shared" / "facts" / "faults.md"
SECTIONS = ("1.2", "1.3", "1.4", "1.5")  # Envelope, surface, sessions and streams, concurrency.
NAMED = re.compile(r"(?:CVE-\d+-\d+|GHSA(?:-[0-9a-z]{4}){3})")
needs_facts = pytest.mark.skipif(not FAULTS.is_file(), reason="the list of threats and faults is not beside this")


@cache
def arguments(path: str) -> dict[str, set[str]]:
    """The tests of a module, each with what it takes."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {each.name: {arg.arg for arg in each.args.args} for each in functions if each.name.startswith("test_")}


TABLES: list[Proofs] = [ROWS, ELSEWHERE, ADVISORIES, *LATER.values()]


@pytest.mark.parametrize("table", TABLES, ids=["faults", "elsewhere", "advisories", *LATER])
def test_each_row_names_tests_there_are(table: Proofs) -> None:
    for row, tests in table.items():
        assert tests, row
        for path, name in tests:
            assert name in arguments(path), (row, path, name)


def test_each_fault_is_tried_with_both_parsers() -> None:
    for row, tests in ROWS.items():
        assert any({"parser", "http"} & arguments(path)[name] for path, name in tests), row


@needs_facts
@pytest.mark.parametrize("section", SECTIONS)
def test_each_row_of_the_list_of_faults_has_its_tests(section: str) -> None:
    found = FAULTS.read_text(encoding="utf-8").partition(f"### {section} ")[2].partition("### ")[0]
    rows = [line for line in found.splitlines() if line.startswith("| ")][2:]
    numbers = [row.split()[0] for row in (*ROWS, *ELSEWHERE) if row.startswith(section)]
    assert sorted(numbers) == [f"{section}/{number:02}" for number in range(1, len(rows) + 1)]


@needs_facts
def test_each_advisory_of_the_list_has_its_test() -> None:
    listed = FAULTS.read_text(encoding="utf-8").partition("### Advisories")[2].partition("### ")[0]
    listed = re.sub(r"\(Found.*?\)", "", listed, flags=re.S)  # One was discarded.
    assert set(NAMED.findall(listed)) <= {*ADVISORIES, *ABSENT}


def test_what_an_advisory_is_about_is_required_in_a_version_without_it() -> None:
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    versions = {
        found[1]: tuple(map(int, found[2].split(".")))
        for each in wanted
        if (found := re.match(r"([\w-]+)(?:\[[\w,]+\])?[=>]=([\d.]+)", each))
    }
    assert versions["starlette"] >= (0, 49, 1)
    assert versions["datamodel-code-generator"] >= (0, 70, 0)
