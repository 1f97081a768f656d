"""What the tables of benchmarks say is met: by the ratio to the other, or by what ours takes alone."""

from __future__ import annotations

import tomllib
from importlib import import_module
from types import ModuleType

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


# ---- rounds and results ---------------------------------------------------------------------------------------------


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("measures.rounds")


@pytest.mark.parametrize(
    ("seconds", "lasts", "expected"),
    [(None, 10, [0, 1, 2, 3, 4]), (100, 10, [0, 1, 2, 3, 4]), (35, 10, [0, 1, 2]), (5, 10, [0, 1]), (0, 1, [0, 1])],
)
def test_rounds_end_before_their_time_and_one_always_counts(
    rounds: ModuleType, monkeypatch: pytest.MonkeyPatch, seconds: float | None, lasts: float, expected: list[int]
) -> None:
    now = [1000.0]
    monkeypatch.setattr(rounds.time, "monotonic", lambda: now[0])
    counted, numbers = rounds.Rounds(4, seconds), []
    for number in counted:
        numbers.append(number)
        now[0] += lasts
    assert (numbers, counted.counted) == (expected, expected[-1])


def test_a_result_gets_the_commit_and_the_day_of_its_measurement(rounds: ModuleType) -> None:
    table = (ROOT / "benchmarks" / "results" / "results.toml").read_text(encoding="utf-8")
    before = tomllib.loads(table)
    for name, row in before.items():
        after = tomllib.loads(rounds.with_row(table, name, "a" * 40, "2030-01-02"))
        assert after == before | {name: {**row, "commit": "a" * 40, "day": "2030-01-02"}}
    for name in ("a.md", "tea.md", "zz.md"):
        added = rounds.with_row(rounds.with_new_row(table, name, ["docs"]), name, "a" * 40, "2030-01-02")
        assert tomllib.loads(added) == before | {name: {"commit": "a" * 40, "day": "2030-01-02", "measures": ["docs"]}}
        assert [*tomllib.loads(added)] == sorted([*before, name])
    with pytest.raises(LookupError, match=r"no row for tea\.md"):
        rounds.with_row(table, "tea.md", "a" * 40, "2030-01-02")
