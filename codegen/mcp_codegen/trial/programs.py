"""The programs of a trial: processes that find the generated package and the runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from ..paths import runtime_home

_SECONDS: Final = 300.0  # For a process on a busy machine.


def run_program(name: str, plan: Path, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run a program of this package with a plan; None if it does not end."""
    return run([sys.executable, "-P", "-W", "ignore", str(Path(__file__).with_name(name)), str(plan)], folder)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run a command that finds the package in the folder, and the runtime; None if it does not end."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(folder), str(here), str(runtime_home().parent), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "MYPYPATH": str(runtime_home().parent), "PYTHONUTF8": "1"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None


def last_line(done: subprocess.CompletedProcess[str] | None) -> str:
    """Return the last line that a program wrote, or why there is none."""
    if done is None:
        return "it did not end"
    return ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
