"""What the table of slow readers says is well: the aim alone, whatever the machine did before."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from support.project import ROOT

GOOD = {"calls": 200, "p50": 1.0, "p99": 250.0}
SLOW = {"calls": 200, "p50": 1.0, "p99": 250.1}


@pytest.mark.parametrize(
    ("during", "after", "unanswered", "well"),
    [
        (GOOD, GOOD, [], "yes"),
        (SLOW, GOOD, [], "no"),
        (GOOD, SLOW, [], "no"),
        (GOOD, GOOD, ["TimeoutError: "], "no"),
    ],
)
def test_a_cell_is_well_if_all_calls_are_answered_in_time(
    monkeypatch: pytest.MonkeyPatch, during: Any, after: Any, unanswered: list[str], well: str
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "reliability")
    program = import_module("slow_readers")
    before = {"calls": 200, "p50": 9.0, "p99": 9000.0}
    cell = {"kind": "bridge", "revision": "2025-11-25", "before": before, "during": during, "after": after}
    (row,) = program.rows([{**cell, "unanswered": unanswered}])
    assert row[-2:] == [str(len(unanswered)), well]
    assert len(row) == len(program.HEADS)
