"""Runs Python programs under the emulation of Windows: see emulation/sitecustomize.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

EMULATION: Final = Path(__file__).resolve().parent / "emulation"
DEADLINE: Final = 60.0  # Seconds for a program, on a busy machine.


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process that runs as on Windows, with a code page that is not UTF-8."""
    path = os.pathsep.join([str(EMULATION), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", **variables}


def processes_of(mark: str) -> list[int]:
    """Return the processes that run below one with `EMULATED_TREE=mark` in its environment, and that one itself."""
    folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    running: list[int] = []
    for folder in folders:
        with suppress(OSError):  # It has ended, or belongs to another user.
            if mark.encode() in (folder / "environ").read_bytes():
                running.append(int(folder.name))
    return running


def all_end(mark: str) -> bool:
    """Wait until no process has this mark; return False if some run on after the deadline."""
    until = time.monotonic() + DEADLINE
    while (running := bool(processes_of(mark))) and time.monotonic() < until:
        time.sleep(0.02)
    return not running


def start(*command: str, **variables: str) -> subprocess.Popen[bytes]:
    """Start a Python program with pipes to its standard streams."""
    pipe = subprocess.PIPE
    command = (sys.executable, *command)
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(**variables))


def run(source: str, *arguments: str, **variables: str) -> Any:
    """Run the source of a program and return the JSON that it prints. Raises AssertionError if it fails."""
    command = [sys.executable, "-c", textwrap.dedent(source), *arguments]
    done = subprocess.run(command, capture_output=True, env=environment(**variables), timeout=DEADLINE)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)
