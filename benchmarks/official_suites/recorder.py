"""A plugin of pytest that writes what becomes of each test at once, so that a run that is ended keeps what it has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

LENGTH: Final = 300  # Characters of the first line of an error.


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write a module that cannot be imported."""
    if report.failed:
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E   ")]
        write(report.nodeid, "not imported", lines[-1][1:].strip() if lines else str(report.longrepr))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the end of a test, and what fails before or after it."""
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        write(report.nodeid, "failed", crash.message if crash else str(report.longrepr))
    elif report.skipped:
        write(report.nodeid, "skipped", "")
    elif report.when == "call":
        write(report.nodeid, "passed", "")


def write(test: str, outcome: str, error: str) -> None:
    """Append a line of JSON to the file that the variable names."""
    lines = error.strip().splitlines() or [""]
    told = lines[-1 if lines[0].startswith("Traceback ") else 0]
    line = json.dumps([test, outcome, told[:LENGTH]])
    with Path(os.environ["OFFICIAL_SUITES_RECORD"]).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
