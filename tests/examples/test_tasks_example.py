"""The example of tasks, as processes: its client follows a task by hand, and gets the same result without."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.project import ROOT


@pytest.mark.long
def test_the_example_counts_primes_in_a_task() -> None:
    command = [sys.executable, str(ROOT / "examples" / "tasks" / "primes.py"), "client", "30000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    *working, ended, waited = done.stdout.splitlines()
    assert all(line.startswith("working: ") for line in working)
    assert ended == "completed: {'result': 3245}"  # There are 3,245 primes below 30,000.
    assert waited == "{'result': 3245}"
