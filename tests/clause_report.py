"""The normative clauses and the markers of all tests go in; which clauses a test proves comes out, as text and a page.

Run it: `python tests/clause_report.py`. It prints a table and every testable clause that no test proves, and writes
docs/clauses.md. The clauses are those of tests/clauses.jsonl.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLAUSES = ROOT / "tests" / "clauses.jsonl"
PAGE = ROOT / "docs" / "clauses.md"
REVISIONS = ("2024-11-05", "2025-03-26", "draft", "all")
INTRODUCTION = """# The clauses of the specification, and the tests that prove them

A test says which clauses it proves: `@pytest.mark.clause("2025-03-26/lifecycle/07")`. The clauses are those of the
seed documents, which know two revisions and a draft of June 2025, close to 2025-06-18; a clause is testable where a
program can tell whether it is kept. Made by `python tests/clause_report.py`.
"""


PARTLY = """## Clauses that are testable in part

They ask something of people, or of a whole application; a test proves what a library can give for it, of those on tools,
resources, prompts, completion, roots, sampling and elicitation with a handshake and without one.
"""


@dataclass(frozen=True)
class Clause:
    """One of them, in our own words."""

    id: str
    revision: str
    page: str
    text: str
    testable: bool
    partly: bool = False


class Markers:
    """A plugin that keeps the clause ids of every test that is collected, with the tests that name them."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.tests = marked(items)


def marked(items: Iterable[pytest.Item]) -> dict[str, set[str]]:
    """The tests that name each clause id."""
    found: dict[str, set[str]] = {}
    for item in items:
        for marker in item.iter_markers("clause"):
            for id in marker.args:
                found.setdefault(id, set()).add(item.nodeid)
    return found


def read_clauses() -> list[Clause]:
    """All clauses, in the order of the file."""
    rows = map(json.loads, CLAUSES.read_text(encoding="utf-8").splitlines())
    kinds = ("yes", "partially")
    return [
        Clause(r["id"], r["revision"], r["page"], r["text"], *(r["testable"] == kind for kind in kinds)) for r in rows
    ]


def collect() -> dict[str, set[str]]:
    """The tests that name each clause id; parametrised cases are collected too. Exits where a module cannot be read."""
    markers, said = Markers(), io.StringIO()
    options = ["--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", "--rootdir", str(ROOT), str(ROOT / "tests")]
    with contextlib.redirect_stdout(said):
        code = pytest.main(options, [markers])
    if code != pytest.ExitCode.OK:
        sys.exit(f"the tests cannot be collected:\n{said.getvalue()}")
    return markers.tests


def table(testable: list[Clause], covered: Mapping[str, object]) -> list[str]:
    """Rows of a Markdown table: for each page and revision, how many of the clauses are proven, of how many."""
    revisions = [revision for revision in REVISIONS if any(clause.revision == revision for clause in testable)]
    rows = ["| page | " + " | ".join(revisions) + " |", "|---" * (len(revisions) + 1) + "|"]
    for page in [*sorted({clause.page for clause in testable}), "**all pages**"]:
        cells: list[str] = []
        for revision in revisions:
            here = [c.id for c in testable if c.revision == revision and (page.startswith("*") or c.page == page)]
            cells.append(f"{sum(id in covered for id in here)} of {len(here)}" if here else "")
        rows.append(f"| {page} | " + " | ".join(cells) + " |")
    return rows


def missing(clauses: list[Clause], covered: Mapping[str, object]) -> list[Clause]:
    return [clause for clause in clauses if clause.testable and clause.id not in covered]


def short(clauses: list[Clause]) -> list[str]:
    """The ids of clauses as a list: a line for each page of a revision, runs of numbers joined."""
    numbers: dict[str, list[str]] = {}
    for clause in clauses:
        page, _, number = clause.id.rpartition("/")
        numbers.setdefault(page, []).append(number)
    return [f"* {page}: {', '.join(_runs(sorted(found)))}" for page, found in numbers.items()]


def _runs(numbers: list[str]) -> list[str]:
    runs: list[list[str]] = [numbers[:1]]
    for before, number in pairwise(numbers):
        if int(number) == int(before) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [run[0] if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]


def main() -> None:
    clauses, covered = read_clauses(), collect()
    rows, without = table([each for each in clauses if each.testable], covered), missing(clauses, covered)
    partly = [each for each in clauses if each.partly]
    unknown = sorted(set(covered) - {clause.id for clause in clauses})
    lines = [
        INTRODUCTION,
        "Proven, of testable:\n",
        *rows,
        "",
        "Testable, and not proven by a test yet:\n",
        *(short(without) or ["None."]),
        "",
        PARTLY,
        *table(partly, covered),
        "",
        "Of these, without a test:\n",
        *short([each for each in partly if each.id not in covered]),
    ]
    PAGE.write_text("\n".join([*lines, ""]), encoding="utf-8")
    print("\n".join(rows), "", *(f"{clause.id}: {clause.text}" for clause in without), sep="\n")
    if unknown:
        sys.exit(f"no clause is called {', '.join(unknown)}")


if __name__ == "__main__":
    main()
