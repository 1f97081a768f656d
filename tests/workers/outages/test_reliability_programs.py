"""A small seeded share of the programs of benchmarks/reliability: kills, cuts, many sessions, a soak, mutated bytes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[3] / "benchmarks" / "reliability"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the programs find workers in /proc"),
]
STORES = [
    "sqlite",
    pytest.param(
        "redis",
        marks=pytest.mark.skipif(
            shutil.which("redis-server") is None or find_spec("redis") is None,
            reason="there is no redis-server here (apt-get install redis-server), or no redis-py",
        ),
    ),
]


def report(program: str, *options: str) -> dict[str, Any]:
    """Run a program that ends with 0 if nothing was lost; return what it has counted."""
    command = [sys.executable, str(PROGRAMS / program), *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert run.returncode == 0, run.stdout + run.stderr
    counted: dict[str, Any] = json.loads(run.stdout)
    return counted


@pytest.mark.edges("redis")
@pytest.mark.deadline(120)
@pytest.mark.parametrize("store", STORES)
def test_nothing_is_lost_when_workers_are_killed_and_redis_goes_away(store: str) -> None:
    kinds = {"sqlite": ["worker"], "redis": ["worker", "crash", "reset"]}[store]
    options = ("--instants", "4", "--seed", "1", "--clients", "3", "--workers", "3", "--cut", "1", "--kinds", *kinds)
    counted = report("kills.py", "--store", store, *options)
    assert sum(counted["injected"].values()) == 4 and {*counted["injected"]} == {*kinds}
    assert counted["counts"]["calls that were answered"] > 0


@pytest.mark.exhaustive
@pytest.mark.deadline(120)
@pytest.mark.parametrize("store", STORES)
def test_nothing_is_lost_when_the_machine_sleeps_and_the_store_loses_what_it_has(store: str) -> None:
    """But what nobody has read when the store loses it, which is counted apart."""
    options = ("--instants", "4", "--seed", "3", "--clients", "3", "--workers", "2", "--pause", "6")
    counted = report("kills.py", "--store", store, *options, "--kinds", "sleep", "loss")
    assert {*counted["injected"]} == {"sleep", "loss"}
    assert counted["counts"]["calls that were answered"] > 0


@pytest.mark.exhaustive
@pytest.mark.deadline(120)
@pytest.mark.skipif(find_spec("docket") is None, reason="docket is not installed (pip install pydocket)")
@pytest.mark.parametrize("store", STORES[1:])
def test_no_repeatable_task_is_lost_when_workers_are_killed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASE", "1")
    counted = report("tasks_kills.py", "--instants", "4", "--seed", "1", "--clients", "4", "--workers", "3")
    assert sum(counted["injected"].values()) == 4 and counted["counts"]["tasks completed"] > 0


@pytest.mark.exhaustive
@pytest.mark.deadline(120)
@pytest.mark.skipif(find_spec("docket") is None, reason="docket is not installed (pip install pydocket)")
@pytest.mark.parametrize("store", STORES[1:])
def test_repeatable_tasks_go_on_when_the_store_loses_them_and_the_machine_sleeps(store: str) -> None:
    """Those that the store has lost are known to be lost, and each further one runs."""
    options = ("--instants", "4", "--seed", "62", "--clients", "4", "--workers", "2", "--kinds", "loss", "sleep")
    counted = report("tasks_kills.py", *options)
    assert {*counted["injected"]} == {"loss", "sleep"} and counted["counts"]["tasks completed"] > 0


@pytest.mark.edges("1364-redis")
@pytest.mark.deadline(120)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("first", ["300", "1364"])  # The second has a loss and a sleep between its streams.
def test_a_stream_that_is_cut_at_any_byte_is_resumed_whole(store: str, first: str) -> None:
    counted = report("offsets.py", "--store", store, "--injections", "150", "--first", first)
    assert counted["injections"] == 150


@pytest.mark.exhaustive
@pytest.mark.deadline(120)
@pytest.mark.parametrize("store", STORES[1:])
def test_a_change_reaches_the_streams_of_all_sessions(store: str) -> None:
    counted = report("sessions.py", "--store", store, "--sessions", "40")
    for change in (counted["change 1"], counted["change 2"]):
        assert change["not received"] == change["received twice"] == 0 and change["seconds to all"] is not None


@pytest.mark.exhaustive
def test_what_is_left_holds_nothing() -> None:
    counted = report("soak.py", "--store", "sqlite", "--calls", "320", "--growth", "0.5")
    assert counted["counts"]["calls"] > 200 and counted["counts"]["disconnects"] and counted["counts"]["sessions"]


def test_bytes_of_others_give_documented_errors_only() -> None:
    counted = report("fuzz.py", "--inputs", "1000", "--seed", "7")
    assert len(counted) == 9 and all(figures["inputs"] == 1000 for figures in counted.values())
