"""The client side of the stdio transport: start a server as a child process, and end it with all that it has started.

MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#stdio
"""

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

_GRACE: Final = 2.0  # Seconds a child has to exit after its standard input was closed, and again after SIGTERM.
_STEP: Final = 0.01
_TAIL: Final = 12  # Last lines of standard error that an error message includes.
_MAX_LINE: Final = 400  # Characters of such a line.
_INHERITED: Final = (
    *("APPDATA", "COMSPEC", "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PATHEXT", "SHELL", "SYSTEMROOT"),
    *("TEMP", "TERM", "TMPDIR", "USER", "USERPROFILE", "VIRTUAL_ENV"),
)

OnLine = Callable[[str], None]


class SubprocessTransport(PipeTransport):
    """A transport to a child process, which leads its own process group; the whole group ends with the child."""

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
        self._closing: asyncio.Task[None] | None = None
        self._loop.add_reader(self._stderr.fileno(), self._read_stderr)

    @classmethod
    async def start(
        cls, command: tuple[str, ...], env: Mapping[str, str] | None, cwd: str | None, stderr: OnLine | None
    ) -> SubprocessTransport:
        """Start the command without a shell, and return the transport to it.

        Args:
            command: Program and arguments.
            env: Variables to add to the few that the child inherits (`PATH`, `HOME`, …).
            cwd: Working directory; None is that of this process.
            stderr: Called with each line that the child writes to its standard error; None writes it to ours.

        Raises ConnectionClosedError if the command cannot be started.
        """
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**inherited, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise ConnectionClosedError(f"{command[0]!r} cannot be started: {error.strerror}") from None
        return cls(child, stderr)

    @property
    def close_reason(self) -> str:  # type: ignore[override]
        """The exit code or signal that the server ended with, and the last lines of its standard error."""
        code = self._code
        state = (
            "closed its output"
            if code is None
            else f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        )
        lines = "\n  ".join(self._tail)
        return f"the server {state}" + (f"; its standard error ended with:\n  {lines}" if lines else "")

    def _deliver_end(self, deliver: Callable[[bytes | None], None]) -> None:
        """Wait up to 0.25 s for the child to exit, so that `close_reason` can include its exit code."""

        async def wait() -> None:
            if not self._closed:
                await self._ended_within(0.25)
            deliver(None)

        self._waiting = self._loop.create_task(wait())

    async def close(self, timeout: float = 0.3) -> None:
        """Close the child's standard input and wait until it has exited; if it does not, send SIGTERM, then SIGKILL.

        `timeout` is the number of seconds to send buffered messages. All calls wait for the same end, which a
        cancelled call does not interrupt.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close_and_reap(timeout))
        await asyncio.shield(self._closing)

    async def _close_and_reap(self, timeout: float) -> None:
        try:
            await super().close(timeout)
            self._loop.add_reader(self._incoming, self._discard_output)
            try:
                await self._end_child()
            finally:
                self._loop.remove_reader(self._incoming)
                os.close(self._incoming)
        finally:
            if self._child.returncode is None:  # The event loop ends, and has cancelled this task.
                self._signal_group(signal.SIGKILL)

    def _release(self) -> None:
        """Close the child's standard input only: a child that writes while it exits would get SIGPIPE otherwise."""
        os.close(self._outgoing)

    def _discard_output(self) -> None:
        if not os.read(self._incoming, 1 << 16):
            self._loop.remove_reader(self._incoming)

    async def _end_child(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._ended_within(_GRACE):
                break
            self._signal_group(number)
        # The child is not reaped yet, so no other process group can have its id.
        self._signal_group(signal.SIGKILL)
        while self._child.poll() is None:  # noqa: ASYNC110 - no event says that a child has ended
            await asyncio.sleep(_STEP)
        self._stop_stderr()

    async def _ended_within(self, seconds: float) -> bool:
        """Return True if the child exits within this time; the child is not reaped."""
        deadline = self._loop.time() + seconds
        while not self._has_ended():
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_STEP)
        for _ in range(3):  # Let the event loop read the last lines of standard error.
            await asyncio.sleep(0)
        return True

    def _has_ended(self) -> bool:
        """Return True if the child has exited, and store its exit code. It is not reaped: its process group id stays
        in use until then."""
        if self._code is None:
            result = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if result is not None:
                self._code = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        return self._code is not None

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    # ---- standard error ----------------------------------------------------------------------------------------------

    def _read_stderr(self) -> None:
        data = os.read(self._stderr.fileno(), 1 << 16)
        *lines, self._part = (self._part + data).split(b"\n")
        if not data or len(self._part) > 1 << 16:
            lines, self._part = [*lines, self._part], b""
        for line in filter(None, lines):
            text = line.decode(errors="replace").rstrip("\r")
            self._tail.append(text[:_MAX_LINE])
            with suppress(Exception):  # An error of the callback must not end the connection.
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
