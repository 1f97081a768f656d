"""A child process on Linux and macOS, which leads its tree; the event loop watches the pipes to it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from ...protocol.framing import SizeLimit
from .child import Child, OnLine, ProcessTree, SubprocessTransport

if sys.platform != "win32":
    from .pipes import PipeTransport

assert sys.platform != "win32"

_CHUNK: Final = 1 << 16  # Bytes to read at once.


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


class PipedChild(SubprocessTransport, PipeTransport):
    """A transport to a child process, whose pipes the event loop watches."""

    def __init__(self, tree: ProcessTree, stderr: OnLine | None, limit: SizeLimit) -> None:
        super().__init__(tree, stderr, limit)
        self._stderr_open = True
        self._loop.add_reader(self._stderr, self._read_stderr)

    def _release(self) -> None:
        self._stop_writing()
        os.close(self._outgoing)
        self._loop.add_reader(self._incoming, self._discard_output)

    def _discard_output(self) -> None:
        if not os.read(self._incoming, _CHUNK):
            self._loop.remove_reader(self._incoming)

    def _stop_reading(self) -> None:
        self._stop_stderr()
        self._loop.remove_reader(self._incoming)
        os.close(self._incoming)

    async def _read_last_lines(self) -> None:
        for _ in range(3):  # Let the event loop read.
            await asyncio.sleep(0)

    def _read_stderr(self) -> None:
        data = os.read(self._stderr, _CHUNK)
        self._receive_stderr(data)
        if not data:
            self._stop_stderr()

    def _stop_stderr(self) -> None:
        if self._stderr_open:
            self._stderr_open = False
            self._loop.remove_reader(self._stderr)
            os.close(self._stderr)
