"""A transport to a child process, which ends with all that it has started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from ...protocol.framing import SizeLimit
from ...usage.texts import plain
from .lines import LineTransport, error_output, pipe_io
from .lines import OnLine as OnLine

# The environment of a child process: a few variables of this one, and those that the caller adds.

INHERITED: Final = (
    *("APPDATA", "COMSPEC", "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PATHEXT", "SHELL", "SYSTEMROOT"),
    *("TEMP", "TERM", "TMPDIR", "USER", "USERPROFILE", "VIRTUAL_ENV"),
)
Child = subprocess.Popen[bytes]

_GRACE: Final = 2.0  # Seconds a child has to exit after its standard input was closed, and again after SIGTERM.
_STEP: Final = 0.01
_TAIL: Final = 12  # Last lines of standard error that an error message includes.
_MAX_LINE: Final = 400  # Characters of such a line.
_MAX_PART: Final = 1 << 16  # Bytes of a line of standard error after which the rest is another line.


def child_environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables of a child process."""
    if sys.platform == "win32":
        return pipe_io().environment(INHERITED, env or {})
    return {**{name: os.environ[name] for name in INHERITED if name in os.environ}, **(env or {})}


# A child process and the processes that it starts, which end together.


class ProcessTree(ABC):
    """A child process, and all that it starts. `child` has pipes to its three standard streams."""

    child: Child

    @abstractmethod
    def exit_code(self) -> int | None:
        """Return the exit code of the child, negative for a signal; None while it runs."""

    @abstractmethod
    def terminate(self) -> None:
        """Request the processes to end, by SIGTERM or Ctrl-Break."""

    @abstractmethod
    def kill(self) -> None:
        """End all processes of the tree at once."""

    @abstractmethod
    def release(self) -> None:
        """Release what the system holds for the tree, after the child has ended."""


class SubprocessTransport(LineTransport):
    """A transport to a child process; the processes that it starts end with it. A subclass reads and writes.

    The side that has started the other one always reads: a server may stop to read while nobody reads what it writes.
    """

    waits_for_room = False
    high_water = 1 << 17  # Clients that share a server take turns above it: little of one is before that of another.

    def __init__(self, tree: ProcessTree, stderr: OnLine | None, limit: SizeLimit) -> None:
        child = tree.child
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        super().__init__(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()), limit)
        self._stderr = os.dup(child.stderr.fileno())
        for stream in (child.stdin, child.stdout, child.stderr):
            stream.close()
        self._tree = tree
        self._child = child
        self._on_line = stderr or error_output().write_line
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._part = b""
        self._code: int | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def close_reason(self) -> str:  # type: ignore[override]
        """The exit code or signal that the server ended with."""
        return f"the server {'closed its output' if self._code is None else _described(self._code)}"

    @property
    def last_output(self) -> str:
        """The last lines of its standard error."""
        return "\n  ".join(self._tail)

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
            await self._end_child()
        finally:
            self._stop_reading()
            if self._child.returncode is None:  # The event loop ends, and has cancelled this task.
                self._tree.kill()
            self._tree.release()

    async def _end_child(self) -> None:
        for end in (self._tree.terminate, self._tree.kill):
            if await self._ended_within(_GRACE):
                break
            end()
        # The child is not reaped yet, so no other process group can have its id.
        self._tree.kill()
        while self._child.poll() is None:  # noqa: ASYNC110 - no event says that a child has ended
            await asyncio.sleep(_STEP)

    async def _ended_within(self, seconds: float) -> bool:
        """Return True if the child exits within this time."""
        deadline = self._loop.time() + seconds
        while not self._has_ended():
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(_STEP)
        await self._read_last_lines()
        return True

    def _has_ended(self) -> bool:
        """Return True if the child has exited, and store its exit code."""
        if self._code is None:
            self._code = self._tree.exit_code()
        return self._code is not None

    # ---- descriptors -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _release(self) -> None:
        """Close the child's standard input, and drop its output: a child that writes while it exits would get SIGPIPE
        if its output were closed."""

    @abstractmethod
    async def _read_last_lines(self) -> None:
        """Read what a child that has exited wrote to its standard error, as far as that takes no time."""

    @abstractmethod
    def _stop_reading(self) -> None:
        """Close the child's standard output and standard error."""

    def _receive_stderr(self, data: bytes) -> None:
        """Call the function of the user with each line; no data is the end."""
        *lines, part = (self._part + data).split(b"\n")
        self._part = part
        if not data or len(self._part) > _MAX_PART:
            lines = [*lines, self._part]
            self._part = b""
        for line in filter(None, lines):
            text = line.decode(errors="replace").rstrip("\r")
            self._tail.append(plain(text[:_MAX_LINE]))
            with suppress(Exception):  # An error of the callback must not end the connection.
                self._on_line(text)


def _described(code: int) -> str:
    if code < 0:
        return f"was ended by signal {-code}"
    hint = ', as a program does that lacks app.run("stdio")' if code == 0 else ""
    return f"ended with exit code {code if code < 1 << 31 else hex(code)}{hint}"  # Windows lists the large ones in hex.
