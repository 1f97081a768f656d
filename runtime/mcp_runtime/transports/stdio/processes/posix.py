"""Process trees of POSIX systems: the child leads a process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

from .tree import Child, ProcessTree

assert sys.platform != "win32"


class GroupTree(ProcessTree):
    """A child that leads its own session and process group."""

    def __init__(self, command: tuple[str, ...], env: Mapping[str, str], cwd: str | None) -> None:
        pipe = subprocess.PIPE
        self.child: Child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, start_new_session=True
        )
        self._code: int | None = None

    def exit_code(self) -> int | None:
        """Return the exit code. The child is not reaped where that is possible: until then, no other process group can
        have its id."""
        if self._code is None:
            self._code = _exit_code(self.child)
        return self._code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def release(self) -> None:
        pass

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, number)


def _exit_code(child: Child) -> int | None:
    if sys.platform != "darwin" and hasattr(os, "waitid"):  # On macOS, Python has it since 3.13 only.
        result = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
    return child.poll()
