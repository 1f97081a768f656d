"""Standard error that stops no program: what its reader does not take waits in memory, up to a limit."""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Final, TextIO, cast

from mcp_runtime.usage.texts import coloured

_MAX_PENDING: Final = 1 << 20  # Bytes that wait for the reader; what is written beyond is dropped.
_FINISH_SECONDS: Final = 0.2  # Seconds for the reader to take them when the process ends.
_MOMENT: Final = 0.2  # Seconds that a writer waits once on Windows, where a thread writes.
_AT_ONCE: Final = 512  # Bytes that a pipe or a socket with any room takes at once, on every POSIX system.
_OUTPUTS: Final[dict[int, UnblockedOutput]] = {}
_GRACE: Final = 0.3  # Seconds for threads to end when the main thread has.


class UnblockedOutput(io.RawIOBase):
    """A file that writes to a pipe or a socket and never waits for its reader."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # On Windows, one thread has a descriptor at a time: `os.dup2(2, 1)` would wait for the reader.
        self._target = os.dup(descriptor) if sys.platform == "win32" else descriptor
        self._reset()
        if sys.platform != "win32":
            os.register_at_fork(after_in_child=self._reset)  # A forked process has no thread that drains.

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._pending = bytearray()
        self._dropped = 0
        self._is_blocked = False  # Has the reader let a writer wait for a moment, and has not taken all since?
        self._taken = threading.Event()
        self._taken.set()
        self._given = threading.Event()
        self._thread = threading.Thread(target=self._drain, name="mcp standard error", daemon=True)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor: child processes may write to it."""
        return self._descriptor

    def write(self, data: Any) -> int:
        """Write bytes, or store them if the reader takes no more; return their number. Raises OSError without one."""
        size = len(data)
        with self._lock:
            room = max(_MAX_PENDING - len(self._pending), 0)
            self._pending += bytes(data[:room])
            self._dropped += max(size - room, 0)
            if self._taken.is_set() and not self._write_ready(0):
                self._taken.clear()
                self._given.set()
                if not self._thread.is_alive():
                    self._thread.start()
        return size

    def flush(self) -> None:
        """On Windows, where a thread writes, wait a moment: the last words of a process are out when it ends."""
        super().flush()
        if sys.platform == "win32" and not self._is_blocked:
            self._is_blocked = not self._taken.wait(_MOMENT)

    def finish(self) -> None:
        """Wait a moment until the reader has taken what is stored."""
        self._taken.wait(_FINISH_SECONDS)

    def _drain(self) -> None:
        """Write what is stored as the reader takes it, and wait for more: on Windows, for each line. Where a pipe does
        not tell that it has room, as there, the thread waits in the call that writes."""
        while self._given.wait():
            try:
                has_room = _wait_for_room(self._target, None)
                written = 0 if has_room else os.write(self._target, self._pending[: _AT_ONCE << 5])
            except OSError:  # There is no reader any more: on Windows, nobody is told.
                written = len(self._pending)
            with self._lock:
                del self._pending[:written]
                try:
                    is_done = self._write_ready(0)
                except OSError:  # There is no reader any more: the next write raises the error.
                    self._pending.clear()
                    is_done = True
                if is_done:
                    self._given.clear()
                    self._is_blocked = False
                    self._taken.set()

    def _write_ready(self, timeout: int) -> bool:
        """Write as much as takes no waiting; return True if that was all."""
        while True:
            if not self._pending and self._dropped:
                self._pending += b"... %d bytes of standard error were dropped: nobody has read them\n" % self._dropped
                self._dropped = 0
            if not self._pending:
                return True
            if not _wait_for_room(self._target, timeout):
                return False
            written = os.write(self._target, self._pending[:_AT_ONCE])
            del self._pending[:written]


def _wait_for_room(descriptor: int, timeout: int | None) -> bool:
    """Wait up to `timeout` milliseconds, or without a limit, until a descriptor takes bytes; return True if it does."""
    if sys.platform == "win32":
        return False  # Nobody knows: a thread writes.
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(timeout))


def unblock_error_output() -> None:
    """Let `print` and the loggers of this process write without waiting for the reader of its standard error.

    Does nothing for files and terminals. Other writers, such as child processes, wait as ever.
    """
    if (raw := _output(2)) is None:
        return
    for name, descriptor in (("stderr", 2), ("stdout", 1)):
        old = getattr(sys, name)
        if _descriptor_of(old) != descriptor:
            continue
        old.flush()
        new = io.TextIOWrapper(
            cast(io.BufferedWriter, raw),
            encoding=old.encoding,
            errors="backslashreplace",
            line_buffering=True,
            write_through=True,
        )
        setattr(sys, name, new)
        _replace_in_loggers(old, new)


def finish_error_output() -> None:
    """Wait a moment until the reader of standard error has taken what was written."""
    if (raw := _unblocked(sys.stderr)) is not None:
        raw.finish()


def write_line(line: str) -> None:
    """Write a line of a child process to standard error without waiting for its reader. In a terminal, it can choose
    colours and nothing else."""
    stream = sys.stderr
    if stream.isatty():
        line = coloured(line)
    output = _output(_descriptor_of(stream)) if _unblocked(stream) is None else None
    if output is not None:
        stream.flush()
        output.write(line.encode(errors="backslashreplace") + b"\n")
        output.flush()
    else:
        print(line, file=stream, flush=True)


def _output(descriptor: int | None) -> UnblockedOutput | None:
    """Return what writes to a pipe or a socket without waiting; None for another descriptor.

    It is asked once, before a thread writes: on Windows, who asks about a pipe waits for who writes to it.
    """
    if descriptor is not None and descriptor not in _OUTPUTS and _has_reader(descriptor):
        _OUTPUTS[descriptor] = UnblockedOutput(descriptor)
    return None if descriptor is None else _OUTPUTS.get(descriptor)


def _has_reader(descriptor: int) -> bool:
    """Return True for a pipe or a socket, whose reader may stop reading."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _descriptor_of(stream: Any) -> int | None:
    try:
        number: int = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return number


def _unblocked(stream: Any) -> UnblockedOutput | None:
    raw = getattr(stream, "buffer", None)
    return raw if isinstance(raw, UnblockedOutput) else None


def _replace_in_loggers(old: TextIO, new: TextIO) -> None:
    """Let the handlers of all loggers that write to one file write to another one."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if getattr(handler, "stream", None) is old:
                cast("logging.StreamHandler[TextIO]", handler).setStream(new)


# The end of a process whose handlers still run: in threads that Python would wait for, or in a blocked event loop.


def exit_without_threads() -> None:
    """Let the process exit soon after its main thread, although threads of handlers still run.

    Python waits for all threads that are not daemons, such as those of `asyncio.to_thread`. The process ends with the
    exit code 0, or 1 after an exception that nothing has caught.
    """
    waited_for = [thread for thread in threading.enumerate() if not thread.daemon]
    register: Any = getattr(threading, "_register_atexit", None)
    if len(waited_for) < 2 or register is None:  # The main thread is one of them.
        return
    main_has_ended = threading.Event()

    def watch() -> None:
        main_has_ended.wait()
        time.sleep(_GRACE)
        os._exit(1 if getattr(sys, "last_value", None) is not None else 0)

    threading.Thread(target=watch, name="mcp exit", daemon=True).start()
    with suppress(RuntimeError):  # Python ends already.
        register(main_has_ended.set)


class ExitTimer:
    """A timer that ends the process, whatever its event loop and its threads do."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self, seconds: float, code: int) -> None:
        """End the process after this many seconds with this exit code; the first call counts."""
        if self._timer is None:
            self._timer = threading.Timer(seconds, os._exit, [code])
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        """Do not end the process."""
        if self._timer is not None:
            self._timer.cancel()
