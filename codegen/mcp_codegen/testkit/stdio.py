"""Line-based I/O over pipes with a time limit, and the start and end of a server process."""

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
from .processes import Process, kill_group, start_group

_BLOCK: Final = 65536
_EXIT_TIMEOUT: Final = 5.0  # Seconds that a process has to exit after its input is closed.


class LineReader:
    """The lines of a pipe, without line ends, read in a separate thread."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self, timeout: float | None = None, what: str = "a line") -> bytes | None:
        """Return the next line, or None at the end. Raises CodegenError if none is read within `timeout` seconds."""
        try:
            return self._lines.get(timeout=timeout)
        except queue.Empty:
            raise CodegenError(
                f"{what} was not received within {timeout:g} s; raise --timeout if it needs longer"
            ) from None

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
    """Write a whole line. Return False if the pipe is closed."""
    data = memoryview(line + b"\n")
    try:
        while data:
            data = data[os.write(target, data) :]
    except OSError:
        return False
    return True


@contextmanager
def start_process(command: Sequence[str]) -> Generator[Process]:
    """Run a program with pipes to its input and output; on exit, end it and all processes that it started."""
    try:
        process = start_group(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise CodegenError(f"{command[0]}: cannot be started: {error.strerror}; check COMMAND") from error
    try:
        yield process
    finally:
        stop_process(process)


def stop_process(process: Process) -> int:
    """Close the input of a process, wait, and kill it if it does not exit. Return its exit code."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_TIMEOUT)
    kill_group(process)
    code = process.wait()
    process.stdout.close()
    return code


def end_on_sigterm() -> None:
    """Exit normally on SIGTERM, so that child processes are ended too."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
