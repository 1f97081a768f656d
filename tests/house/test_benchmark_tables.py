"""What the tables of benchmarks say is met: by the ratio to the other, or by what ours takes alone."""

from __future__ import annotations

from importlib import import_module

import pytest
from support.project import ROOT

RATIO = {"target": 0.5, "shown": "≤ 0.5"}
ABSOLUTE = {"target": 250, "shown": "≤ 250", "absolute": True}
MORE = {"target": 2, "shown": "≥ 2", "more": True}


@pytest.mark.parametrize(
    ("target", "ours", "peers", "met"),
    [
        (RATIO, 254, 700, "yes"),
        (RATIO, 254, 400, "no"),
        (ABSOLUTE, 254, 700, "no"),
        (ABSOLUTE, 249, 100, "yes"),
        (MORE, 10, 4, "yes"),
        (MORE, 10, 6, "no"),
    ],
)
def test_a_row_says_whether_its_own_target_is_met(
    monkeypatch: pytest.MonkeyPatch, target: dict[str, object], ours: float, peers: float, met: str
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables = import_module("stdio_table")
    measure = tables.Measure("taken", "what is taken", **target)
    (row,) = tables.rows([measure], {"ours": {"taken": ours}, "other": {"taken": peers}}, "other", [])
    assert row[-2:] == [target["shown"], met]


def test_a_ratio_is_the_median_of_those_of_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables = import_module("stdio_table")
    measure = tables.Measure("taken", "what is taken", 0.5, "≤ 0.5", limits={"bare": 2})
    turns = {
        "ours": [{"taken": 10.0}, {"taken": 40.0}, {"taken": 100.0}],
        "other": [{"taken": 100.0}, {"taken": 50.0}, {"taken": 1000.0}],
        "bare": [{"taken": 5.0}, {"taken": 10.0}, {"taken": 40.0}],
    }
    (row,) = tables.rows_of_turns([measure], turns, "other", [])
    assert row == ["what is taken", "40.0", "100", "10.0", "0.10 (1/10.0)", "≤ 0.5", "yes", "2.50 ✗"]
    (row,) = tables.rows([measure], tables.medians(turns), "other", [])
    assert row[-4:] == ["0.40", "≤ 0.5", "yes", "4.00 ✗"]
