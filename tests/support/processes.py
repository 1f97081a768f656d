"""Processes: free ports for them, and their end with the session of tests, or within a time without other work."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from support.systems import PATIENCE

Moment = tuple[float, float]
GRACE = 20.0  # Seconds for a process that was told to terminate.
# Below the ports that systems give to clients: one of those may be taken again before the program has it.
_PORTS: Final = range(10_240, 32_000)
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has one way to end a process from outside.
_SYNCHRONIZE: Final = 0x100000
_WAIT_TIMEOUT: Final = 0x102
_shared: list[subprocess.Popen[Any]] = []


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses, for programs that cannot choose one themselves."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def end_with_session(process: subprocess.Popen[Any]) -> None:
    """Terminate a process that many tests share when the session of tests ends, also in a worker of pytest-xdist."""
    _shared.append(process)


def end_shared() -> None:
    """Terminate the shared processes, and kill those that do not end."""
    for process in _shared:
        process.terminate()
    while _shared:
        process = _shared.pop()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill(pid: int) -> None:
    """End a process at once."""
    os.kill(pid, _KILL)


def runs(pid: int) -> bool:
    """Return whether a process has not ended, or has ended and its parent has not waited for it."""
    if sys.platform != "win32":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    libraries: Any = ctypes.windll
    handle = libraries.kernel32.OpenProcess(_SYNCHRONIZE, False, pid)
    if not handle:
        return False
    try:
        return bool(libraries.kernel32.WaitForSingleObject(handle, 0) == _WAIT_TIMEOUT)
    finally:
        libraries.kernel32.CloseHandle(handle)


def moment(pid: int) -> Moment:
    """Return the time, and for how many seconds the threads of a process have been ready to run without being scheduled
    by now."""
    try:
        threads = Path(f"/proc/{pid}/task").iterdir()
        waited = sum(int((thread / "schedstat").read_text().split()[1]) for thread in threads) / 1e9
    except (OSError, IndexError):  # The process has ended, or the system does not tell.
        waited = 0.0
    return time.monotonic(), waited


def exit_code_within(process: Any, seconds: float, since: Moment | None = None) -> int:
    """Return the exit code. Raises TimeoutExpired if the process lives longer, not counting the seconds for which other
    work kept it from running: they tell nothing about it."""
    seconds *= PATIENCE
    began, starved = since or moment(process.pid)
    while True:
        try:
            return process.wait(min(0.1, seconds))
        except subprocess.TimeoutExpired:
            now, waited = moment(process.pid)
            if now - began - max(0.0, waited - starved) > seconds:
                raise
