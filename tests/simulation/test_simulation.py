"""The simulator repeats what it has found, finds what is known, and finds nothing else in its first schedules."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from support.project import ROOT

from simulation.faults import FAULTS
from simulation.schedules import played, schedule
from simulation.subjects import LATER, PARTED, SUBJECTS

RESULTS = ROOT / "benchmarks" / "results" / "reliability.md"
FOUND = dict(re.findall(r"^\| (.+?) \| ([\d,]+) \|$", RESULTS.read_text(encoding="utf-8"), re.M))
AT_MOST = 100_000
# Schedules that have failed lately: a worker went on with an older state of a session, as the message about the newer
# one was lost; and, in the last, the store could not be reached just after signs of life, which it then lost. In others
# the simulation was wrong: what was stored again after a loss was lost with the newest second, a message or a change
# was being stored when the store lost its past, a worker was killed whose client was away, or a call had returned just
# when the store lost its newest second.
FAILED = (32_229, 737, 5_001_280, 7_001_440, 9_064_057, 200_047_457, 500_008_385, 700_192_509)
FURTHER = 3_000  # Schedules that may find a fault when the recorded one does not: a change of the code changes them.


@pytest.mark.deadline(60)
@pytest.mark.parametrize("seed", range(3))
def test_a_seed_gives_the_same_schedule_and_the_same_steps(seed: int) -> None:
    first, second = played(seed), played(seed)
    assert first.steps == schedule(seed)
    assert first.trace == second.trace and first.trace


@pytest.mark.deadline(60)
@pytest.mark.parametrize("seed", [*range(3, 6), *FAILED])
def test_every_promise_is_held(seed: int) -> None:
    outcome = played(seed)
    assert not outcome.violations, str(outcome)


@pytest.mark.deadline(60)
def test_every_promise_is_held_in_each_schedule_that_finds_a_known_fault() -> None:
    """`nox -s simulation` plays the first schedules alone, and some of these come much later."""
    outcomes = [played(int(FOUND[fault].replace(",", ""))) for fault in FAULTS]
    assert [str(outcome) for outcome in outcomes if outcome.violations] == []


def test_each_subject_comes_in_the_first_schedules() -> None:
    kinds = [[step.kind for step in schedule(seed)] for seed in range(1000)]
    assert all([part.kind for part in subject] in kinds for subject in (*SUBJECTS, *PARTED, *LATER))


def test_each_fault_has_the_schedule_that_finds_it() -> None:
    assert all(int(FOUND[fault].replace(",", "")) <= AT_MOST for fault in FAULTS)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simulation", "--jobs", "1", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


@pytest.mark.long
@pytest.mark.edges("nobody notices that the store has lost its past", "after a quiet minute")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_known_fault_is_found_and_repeats_in_another_process(fault: str) -> None:
    """The recorded schedule finds it at once, unless the code has changed since."""
    found = simulate("--fault", fault, "--from", FOUND[fault].replace(",", ""), "--schedules", str(FURTHER))
    assert found.returncode == 1, found.stdout + found.stderr
    seed = found.stdout.split("seed ")[1].split(":")[0]
    again = simulate("--fault", fault, "--from", seed, "--schedules", "1")
    assert again.stdout == found.stdout
    right = simulate("--from", seed, "--schedules", "1")
    assert right.returncode == 0, right.stdout + right.stderr
