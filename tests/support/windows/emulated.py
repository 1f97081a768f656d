"""Runs Python programs under the emulation of Windows: see emulation/sitecustomize.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Final

EMULATION: Final = Path(__file__).resolve().parent / "emulation"
DEADLINE: Final = 60.0  # Seconds for a program, on a busy machine.


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process that runs as on Windows, with a code page that is not UTF-8."""
    path = os.pathsep.join([str(EMULATION), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", **variables}


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
