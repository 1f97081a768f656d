"""The end of the processes that clean up after one that a signal has ended."""

from __future__ import annotations

import os
from pathlib import Path


def settle(folder: Path) -> None:
    """Wait until no process removes anything in or beside the folder any more."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and str(folder).encode() in _command(name):
            while _command(name):
                os.sched_yield()


def _command(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
