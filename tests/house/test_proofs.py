"""The rows of tests/proofs.toml: each has a test that carries its marker, and no list that they stand for has more."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from support.markers import marked_tests
from support.project import ROOT, TESTS

FACTS = ROOT.parent / "shared" / "facts" / "faults.md"
SECTIONS = ("1.2", "1.3", "1.4", "1.5")  # Envelope, surface, sessions and streams, concurrency.
PROVED = re.compile(r"\| (\d+a?) \| .* \| `([\w/]+\.py)::(test_\w+)` \|")
NAMED = re.compile(r"(?:CVE-\d+-\d+|GHSA(?:-[0-9a-z]{4}){3})")
needs_facts = pytest.mark.skipif(not FACTS.is_file(), reason=f"the list of threats and faults is not at {FACTS}")

PROOFS: dict[str, Any] = tomllib.loads((TESTS / "proofs.toml").read_text(encoding="utf-8"))
LISTED_ROWS: dict[str, str] = PROOFS["faults"]["server"] | PROOFS["faults"]["elsewhere"]
ROWS = {
    "fault": list(LISTED_ROWS),
    "advisory": PROOFS["advisories"]["tested"],
    "transport_rule": list(PROOFS["transport_rules"]),
}


@pytest.mark.parametrize("marker", ROWS)
def test_each_row_has_a_test_and_each_marker_a_row(marker: str) -> None:
    assert sorted(marked_tests(marker)) == sorted(ROWS[marker])


def test_each_fault_of_a_server_is_tried_with_both_parsers() -> None:
    for row in PROOFS["faults"]["server"]:
        assert any({"parser", "endpoint", "http"} & test.arguments for test in marked_tests("fault")[row]), row


@needs_facts
@pytest.mark.parametrize("section", SECTIONS)
def test_each_row_of_the_list_of_faults_is_a_row(section: str) -> None:
    listed = FACTS.read_text(encoding="utf-8").partition(f"### {section} ")[2].partition("### ")[0]
    rows = [line for line in listed.splitlines() if line.startswith("| ")][2:]
    numbers = [row for row in LISTED_ROWS if row.startswith(section)]
    assert sorted(numbers) == [f"{section}/{number:02}" for number in range(1, len(rows) + 1)]


@needs_facts
def test_each_advisory_of_the_list_is_a_row() -> None:
    listed = FACTS.read_text(encoding="utf-8").partition("### Advisories")[2].partition("### ")[0]
    listed = re.sub(r"\(Found.*?\)", "", listed, flags=re.S)  # One was discarded.
    assert set(NAMED.findall(listed)) <= {*PROOFS["advisories"]["tested"]}


# The tables whose last column names the test of a row: their page, their section, and the rows that they have.
TABLES = {
    "faults in use": ("tests/README.md", "## Faults in use", ["1", "2", "2a", *map(str, range(3, 46))]),
    "clients": ("docs/clients.md", "## What clients of other libraries have", [*map(str, range(1, 32))]),
    "differences": ("docs/migration.md", "## Differences that were decided", [*map(str, range(1, 24))]),
}


@pytest.mark.parametrize("table", TABLES)
def test_each_row_of_a_table_has_a_test_that_exists(table: str) -> None:
    page, section, numbers = TABLES[table]
    lines = (ROOT / page).read_text(encoding="utf-8").partition(section)[2].partition("\n## ")[0].splitlines()
    rows = [PROVED.fullmatch(line) for line in lines if line.startswith("| ") and not line.startswith("| row |")]
    assert [row and row[1] for row in rows] == numbers
    for row in filter(None, rows):
        assert f"def {row[3]}(" in (TESTS / row[2]).read_text(encoding="utf-8"), row[1]


@pytest.mark.advisory("CVE-2025-62727")
def test_a_dependency_with_an_advisory_is_required_in_a_version_without_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    requirements = [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]
    versions = {
        matched[1]: tuple(map(int, matched[2].split(".")))
        for requirement in requirements
        if (matched := re.match(r"([\w-]+)(?:\[[\w,]+\])?[=>]=([\d.]+)", requirement))
    }
    assert versions["starlette"] >= (0, 49, 1)
    assert versions["datamodel-code-generator"] >= (0, 70, 0)
