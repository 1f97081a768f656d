"""The end of processes, on machines that are busy."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

Moment = tuple[float, float]


def moment(pid: int) -> Moment:
    """Return the time, and for how many seconds this process has been ready to run without being scheduled by now."""
    try:
        waited = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # The process has ended, or the system does not tell.
        waited = 0.0
    return time.monotonic(), waited


def exit_code_within(process: subprocess.Popen[Any], seconds: float, since: Moment | None = None) -> int:
    """Return the exit code. Raises TimeoutExpired if the process lives longer, not counting the seconds for which other
    work kept it from running: they tell nothing about it."""
    began, starved = since or moment(process.pid)
    while True:
        try:
            return process.wait(min(0.1, seconds))
        except subprocess.TimeoutExpired:
            now, waited = moment(process.pid)
            if now - began - max(0.0, waited - starved) > seconds:
                raise
