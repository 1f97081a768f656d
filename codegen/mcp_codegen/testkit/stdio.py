"""Bytes of pipes go in, whole lines come out, with a deadline; and a program that is started and ended."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from ..errors import CodegenError

Process = subprocess.Popen[bytes]

_BLOCK: Final = 65536
_ENDS_WITHIN: Final = 5.0  # Seconds that a program has to end once its input is closed.


class Lines:
    """The lines of a pipe, without their ends, read in a thread of their own."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self, within: float | None = None, what: str = "a line") -> bytes | None:
        """The next line, or None at the end. Raises CodegenError where none comes within so many seconds."""
        try:
            return self._lines.get(timeout=within)
        except queue.Empty:
            raise CodegenError(f"{what} did not come within {within:g} s") from None

    def _read(self) -> None:
        rest = b""
        with suppress(OSError):
            while data := os.read(self._source, _BLOCK):
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    self._lines.put(line)
        if rest:
            self._lines.put(rest)
        self._lines.put(None)


def write_line(target: int, line: bytes) -> bool:
    """Write a line whole; False where nobody reads any more."""
    data = memoryview(line + b"\n")
    try:
        while data:
            data = data[os.write(target, data) :]
    except OSError:
        return False
    return True


@contextmanager
def started(command: Sequence[str]) -> Generator[Process]:
    """A program with pipes to its input and output; on leaving, it and all it has started are gone."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    except OSError as fault:
        raise CodegenError(f"{command[0]}: cannot be started: {fault.strerror}") from fault
    try:
        yield process
    finally:
        end(process)


def end(process: Process) -> int:
    """Close the program's input, wait, and kill what does not end by itself. Gives the exit code."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_WITHIN)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    process.stdout.close()
    return code


def end_on_sigterm() -> None:
    """Leave as on an exit, so that what was started is ended too."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
