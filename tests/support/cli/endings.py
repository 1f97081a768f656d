"""The end of the processes that clean up after one that a signal has ended."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def settle(folder: Path) -> None:
    """Wait until no process removes anything in or beside the folder any more."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and str(folder).encode() in _command(name):
            while _command(name):
                os.sched_yield()


def _command(process: str) -> bytes:
    """Return the command of a process; nothing if it has ended."""
    folder, deadline = Path("/proc", process), time.monotonic() + 1
    command = b""
    with suppress(OSError):
        # A process that starts a program has no command for a moment, but its program; one that has ended has neither.
        while not (command := (folder / "cmdline").read_bytes()) and time.monotonic() < deadline:
            os.readlink(folder / "exe")
            os.sched_yield()
    return command
