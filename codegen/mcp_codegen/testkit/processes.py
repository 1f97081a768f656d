"""The start and the end of a process with all that it starts, on POSIX systems and on Windows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from ..errors import CodegenError

Process = subprocess.Popen[bytes]

_TASKKILL_SECONDS: Final = 10.0
_READ_BY_CMD: Final = frozenset('"%&|<>^!\r\n\0')  # What cmd.exe obeys in the arguments of a batch file.


def start_group(
    command: Sequence[str],
    *,
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start a process that leads a process group of its own.

    Raises OSError if it cannot be started, and CodegenError for an argument that no batch file of Windows can take.
    """
    if sys.platform == "win32":
        group = subprocess.CREATE_NEW_PROCESS_GROUP
        words = _searched(command, (os.environ if env is None else env).get("PATH"))
        return subprocess.Popen(words, stdin=stdin, stdout=stdout, env=env, creationflags=group)
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, env=env, start_new_session=True)


def _searched(command: Sequence[str], path: str | None) -> list[str]:
    """Return a command with the path of its program: Windows itself does not find npx.cmd as npx."""
    program = shutil.which(command[0], path=path) or command[0]
    if program.lower().endswith((".bat", ".cmd")):
        for word in command[1:]:
            if wrong := _READ_BY_CMD & set(word):  # CVE-2024-24576: cmd.exe would run what follows.
                raise CodegenError(
                    f"{word!r}: {command[0]} is a batch file, which cannot take {' '.join(sorted(map(repr, wrong)))}; "
                    "start its program directly, such as `node` with the path of a script"
                )
    return [program, *command[1:]]


def terminate_group(process: Process) -> None:
    """Request the processes of a group to end, by SIGTERM or Ctrl-Break."""
    if sys.platform == "win32":
        with suppress(OSError):
            process.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        _signal_group(process, signal.SIGTERM)


def kill_group(process: Process) -> None:
    """End all processes of a group at once. On Windows, those that have outlived their parent are not found."""
    if sys.platform == "win32":
        taskkill = os.path.join(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32", "taskkill.exe")
        with suppress(OSError, subprocess.SubprocessError):
            command = [taskkill, "/T", "/F", "/PID", str(process.pid)]
            subprocess.run(command, capture_output=True, timeout=_TASKKILL_SECONDS)
        with suppress(OSError):
            process.kill()
    else:
        _signal_group(process, signal.SIGKILL)


def _signal_group(process: Process, number: int) -> None:
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
