"""A command goes in, a server runs as a child process with all that it starts, and a transport to it comes out."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from ...errors import ConnectionClosedError
from .pipes import PipeTransport

_GRACE: Final = 2.0  # Seconds a child gets to end by itself once its input is closed, and again after SIGTERM.
_STEP: Final = 0.01
_TAIL: Final = 12  # Lines of standard error that an error message carries.
_MAX_LINE: Final = 400  # Characters of each.
_INHERITED: Final = (
    *("APPDATA", "COMSPEC", "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PATHEXT", "SHELL", "SYSTEMROOT"),
    *("TEMP", "TERM", "TMPDIR", "USER", "USERPROFILE", "VIRTUAL_ENV"),
)

OnLine = Callable[[str], None]


class SubprocessTransport(PipeTransport):
    """Lines to and from a child process. It leads a process group of its own, which ends with it."""

    def __init__(self, child: subprocess.Popen[bytes], stderr: OnLine | None) -> None:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        super().__init__(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()))
        child.stdout.close()
        child.stdin.close()
        self._child = child
        self._stderr = child.stderr
        self._on_line = stderr or _write_stderr
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._part = b""
        self._stderr_open = True
        self._code: int | None = None
        self._loop.add_reader(self._stderr.fileno(), self._stderr_excerpt)

    @classmethod
    async def start(
        cls, command: tuple[str, ...], env: Mapping[str, str] | None, cwd: str | None, stderr: OnLine | None
    ) -> SubprocessTransport:
        """Start the command, without a shell, with a small environment. Raises ConnectionClosedError if it cannot start."""
        small = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**small, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as fault:
            raise ConnectionClosedError(f"{command[0]!r} cannot be started: {fault.strerror}") from None
        return cls(child, stderr)

    @property
    def close_reason(self) -> str:  # type: ignore[override]
        """Why there is nothing to talk to any more, with the end of what the server said on standard error."""
        code = self._code
        how = (
            "closed its output"
            if code is None
            else f"ended with exit code {code}"
            if code >= 0
            else f"was ended by signal {-code}"
        )
        said = "\n  ".join(self._tail)
        return f"the server {how}" + (f"; its standard error ended with:\n  {said}" if said else "")

    def _deliver_end(self, deliver: Callable[[bytes | None], None]) -> None:
        """Wait for a moment, so that errors can say how the server ended."""

        async def wait() -> None:
            if not self._closed:
                await self._ended_within(0.25)
            deliver(None)

        self._waiting = self._loop.create_task(wait())

    async def close(self, timeout: float = 0.3) -> None:
        """Close its input and wait; then tell it to end; then end it, and all that it has started."""
        if self._closed:
            return
        await super().close(timeout)
        self._loop.add_reader(self._incoming, self._kill_now)
        try:
            await self._end_child()
        finally:
            self._loop.remove_reader(self._incoming)
            os.close(self._incoming)

    def _release(self) -> None:
        """Close its input alone: what it says while it ends is read, because writing to nobody would break it."""
        os.close(self._outgoing)

    def _kill_now(self) -> None:
        if not os.read(self._incoming, 1 << 16):
            self._loop.remove_reader(self._incoming)

    async def _end_child(self) -> None:
        for told in (signal.SIGTERM, signal.SIGKILL):
            if await self._ended_within(_GRACE):
                break
            self._signal_group(told)
        # It is not reaped yet, so its group cannot be somebody else's: nothing of it stays.
        self._signal_group(signal.SIGKILL)
        while self._child.poll() is None:  # noqa: ASYNC110 - no event says that a child has ended
            await asyncio.sleep(_STEP)
        self._stop_stderr()

    async def _ended_within(self, seconds: float) -> bool:
        """Whether the child ends in this time; it is not reaped by looking."""
        deadline = self._loop.time() + seconds
        while not self._has_ended():
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_STEP)
        for _ in range(3):  # What it said last may still be in the pipe.
            await asyncio.sleep(0)
        return True

    def _has_ended(self) -> bool:
        """Look whether it has ended, and how, without reaping it: its process group stays its own that long."""
        if self._code is None:
            found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                self._code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return self._code is not None

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    # ---- what it says on standard error ---------------------------------------------------------------------------------

    def _stderr_excerpt(self) -> None:
        data = os.read(self._stderr.fileno(), 1 << 16)
        *lines, self._part = (self._part + data).split(b"\n")
        if not data or len(self._part) > 1 << 16:
            lines, self._part = [*lines, self._part], b""
        for line in filter(None, lines):
            text = line.decode(errors="replace").rstrip("\r")
            self._tail.append(text[:_MAX_LINE])
            with suppress(Exception):  # Whoever listens must not break the conversation.
                self._on_line(text)
        if not data:
            self._stop_stderr()

    def _stop_stderr(self) -> None:
        if self._stderr_open:
            self._stderr_open = False
            self._loop.remove_reader(self._stderr.fileno())
            self._stderr.close()


def _write_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
