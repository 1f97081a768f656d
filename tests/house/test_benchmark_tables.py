"""Tables of measurements: pages have those of benchmarks/results, and these say what is met."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from support.project import ROOT

# ---- pages ----------------------------------------------------------------------------------------------------------

UNIT = re.compile(r"µs|\bms\b|MiB|\bkB\b|CPU|calls/s|\bbytes\b")
NUMBER = re.compile(r"[\d.,]+( (µs|ms|MiB|kB))?(,? .{0,9})?")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("tables")


def test_pages_have_the_tables_of_the_results(tables: Any) -> None:
    """`python benchmarks/tables.py` writes them."""
    texts = {path: path.read_text(encoding="utf-8") for path in tables.pages()}
    assert [str(path.relative_to(ROOT)) for path, text in texts.items() if tables.written(text) != text] == []
    used = {match[3] for text in texts.values() for match in tables.PLACE.finditer(text)}
    assert used == tables.TEXTS.keys()


def test_pages_have_no_other_tables_of_measurements(tables: Any) -> None:
    """Those of decisions are of their day."""
    found: list[str] = []
    for path in tables.pages():
        text = tables.PLACE.sub("", path.read_text(encoding="utf-8"))
        for match in re.finditer(r"^\|.*\n(?:\|.*\n)+", text, re.M):
            table = tables.parsed(match[0])
            cells = [cell for row in table.rows for cell in row[1:] if cell]
            numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
            if UNIT.search(" ".join([*table.heads, *(row[0] for row in table.rows)])) and 2 * len(numbers) > len(cells):
                found.append(f"{path.relative_to(ROOT)}: {match[0][:60]}")
    assert [name for name in found if "docs/adr/" not in name] == []


def test_a_place_gets_its_table_or_its_figure_and_keeps_its_marks(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TEXTS", {"costs": lambda: "| a |", "cost": lambda: "7"})
    page = "<!-- table: costs -->\nold\n<!-- end -->\nIt costs <!-- figure: cost -->6<!-- end --> µs."
    new = "<!-- table: costs -->\n\n| a |\n\n<!-- end -->\nIt costs <!-- figure: cost -->7<!-- end --> µs."
    assert tables.written(page) == tables.written(new) == new
    with pytest.raises(LookupError, match="no text 'other'"):
        tables.written("<!-- figure: other --><!-- end -->")


def test_a_row_is_found_by_its_first_cells_and_has_all_columns(tables: Any) -> None:
    table = tables.parsed("| value | server | median |\n|---|---|---:|\n| start | ours | 5 |\n| start | theirs | |")
    assert table.row("start", "ours") == {"value": "start", "server": "ours", "median": "5"}
    assert table.row("start", "theirs")["median"] == ""
    for names in (("start",), ("end",)):
        with pytest.raises(LookupError, match=f"rows begin with {names[0]}"):
            table.row(*names)


# ---- what is met ----------------------------------------------------------------------------------------------------

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
def test_a_cell_of_slow_readers_is_well_if_all_calls_are_answered_in_time(
    monkeypatch: pytest.MonkeyPatch, during: Any, after: Any, unanswered: list[str], well: str
) -> None:
    """Whatever the machine did before."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "reliability")
    program = import_module("slow_readers")
    before = {"calls": 200, "p50": 9.0, "p99": 9000.0}
    cell = {"kind": "bridge", "revision": "2025-11-25", "before": before, "during": during, "after": after}
    (row,) = program.rows([{**cell, "unanswered": unanswered}])
    assert row[-2:] == [str(len(unanswered)), well]
    assert len(row) == len(program.HEADS)


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
