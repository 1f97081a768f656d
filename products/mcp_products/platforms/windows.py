"""Process trees of Windows: the child and all that it starts are in one job object.

https://learn.microsoft.com/windows/win32/procthread/job-objects
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from mcp_runtime.transports.stdio.child import Child, ProcessTree

from .commands import popen_arguments, system_program

assert sys.platform == "win32"

_TASKKILL_SECONDS: Final = 10.0
_KILLED: Final = 1  # The exit code of processes that are ended by their job.


class JobTree(ProcessTree):
    """A child in a process group and a job object of its own; without a job object, `taskkill` ends the tree."""

    def __init__(self, command: tuple[str, ...], env: Mapping[str, str], cwd: str | None) -> None:
        from .job_objects import JobObject, has_console

        arguments, executable = popen_arguments(command, env, cwd)
        # A child that shares our console can get Ctrl-Break. Without a console, it would open a window of its own.
        self._shares_console = has_console()
        window = 0 if self._shares_console else subprocess.CREATE_NO_WINDOW
        pipe = subprocess.PIPE
        self.child: Child = subprocess.Popen(
            arguments,
            executable=executable,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=env,
            cwd=cwd,
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | window,
        )
        self._job = JobObject.of_process(self.child.pid)

    def exit_code(self) -> int | None:
        return self.child.poll()

    def terminate(self) -> None:
        """Send Ctrl-Break. Processes that have no console get no signal: they are ended."""
        if not self._shares_console:
            self.kill()
            return
        with suppress(OSError):
            self.child.send_signal(signal.CTRL_BREAK_EVENT)

    def kill(self) -> None:
        if self._job is not None:
            self._job.terminate(_KILLED)
        else:
            taskkill = [system_program("taskkill.exe"), "/T", "/F", "/PID", str(self.child.pid)]
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    taskkill, capture_output=True, timeout=_TASKKILL_SECONDS, creationflags=subprocess.CREATE_NO_WINDOW
                )
        with suppress(OSError):
            self.child.kill()

    def release(self) -> None:
        if self._job is not None:
            self._job.close()
            self._job = None
