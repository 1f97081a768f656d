"""The simulator repeats what it has found, finds what is known, and finds nothing else in its first schedules."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.project import ROOT

from simulation.faults import FAULTS
from simulation.schedules import played, schedule

IN_LONG = 3  # The faults of the long run: to look for one takes seconds.
CASES = [
    pytest.param(fault, marks=pytest.mark.long if number < IN_LONG else pytest.mark.exhaustive)
    for number, fault in enumerate(FAULTS)
]
AT_MOST = 100_000
MENDED = (1328, 1854)  # A worker is killed, or the machine sleeps, just after a loss.


@pytest.mark.deadline(60)
@pytest.mark.parametrize("seed", range(3))
def test_a_seed_gives_the_same_schedule_and_the_same_steps(seed: int) -> None:
    first, second = played(seed), played(seed)
    assert first.steps == schedule(seed)
    assert first.trace == second.trace and first.trace


@pytest.mark.deadline(60)
@pytest.mark.parametrize("seed", [*range(3, 6), *MENDED])
def test_every_promise_is_held(seed: int) -> None:
    outcome = played(seed)
    assert not outcome.violations, str(outcome)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simulation", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


@pytest.mark.edges("nobody notices that the store has lost its past")
@pytest.mark.parametrize("fault", CASES)
def test_a_known_fault_is_found_and_repeats_in_another_process(fault: str) -> None:
    found = simulate("--fault", fault, "--schedules", str(AT_MOST))
    assert found.returncode == 1, found.stdout + found.stderr
    seed = found.stdout.split("seed ")[1].split(":")[0]
    again = simulate("--fault", fault, "--from", seed, "--schedules", "1", "--jobs", "1")
    assert again.stdout == found.stdout
