"""The start and the end of a process with all that it starts, on POSIX systems and on Windows, and line-based I/O over
its pipes."""

from __future__ import annotations

import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Final, NoReturn

from ..errors import CodegenError

Process = subprocess.Popen[bytes]

_TASKKILL_SECONDS: Final = 10.0
_READ_BY_CMD: Final = frozenset('"%&|<>^!\r\n\0')  # What cmd.exe obeys in the arguments of a batch file.
_BLOCK: Final = 65536
EXIT_TIMEOUT: Final = 5.0  # Seconds that a process has to exit after its input is closed.


def split_command(text: str, *, windows: bool = sys.platform == "win32") -> list[str]:
    """Return the words of a command line: on Windows, a backslash is a part of a path. Raises ValueError for a quote
    without its end."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if windows:
        lexer.escape = ""
        lexer.quotes = '"'
    return list(lexer)


def joined_command(words: Sequence[str], *, windows: bool = sys.platform == "win32") -> str:
    """Return the command line of words, as a person pastes it into the shell of the system."""
    return subprocess.list2cmdline(words) if windows else shlex.join(words)


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
        taskkill = os.path.join(os.environ.get("SYSTEMROOT") or "C:\\Windows", "System32", "taskkill.exe")
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


# Line-based I/O over pipes with a time limit, and the start and end of a server process.


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
        process.wait(EXIT_TIMEOUT)
    kill_group(process)
    code = process.wait()
    process.stdout.close()
    return code


def end_on_sigterm() -> None:
    """Exit normally on SIGTERM, so that child processes are ended too."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
