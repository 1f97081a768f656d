"""The process that starts the workers of an endpoint, replaces those that end, and ends all of them.

A worker is this program once more: it gets the listening socket, and serves where the first process supervises.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from mcp_products.metrics.process import note_end
from mcp_runtime.errors import LocalError
from mcp_runtime.usage.rules import shown

# A worker process as it sees itself: the socket and the store that it shares, and the line to its supervisor.

ENVIRONMENT: Final = "MCP_HTTP_WORKER"


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """What a supervisor gives a worker: the listening socket, the line to the supervisor, and the URL of the store."""

    listener: socket.socket
    line: socket.socket
    store: str

    @classmethod
    def of_environment(cls) -> WorkerPlace | None:
        """Return the place of this process, once; None if it is not a worker. Its child processes are none.

        Raises LocalError for a variable that no supervisor has set.
        """
        value = os.environ.pop(ENVIRONMENT, "")
        if not value:
            return None
        try:
            listener, line, store = value.split(" ", 2)
            return cls(socket.socket(fileno=int(listener)), socket.socket(fileno=int(line)), store)
        except (ValueError, OSError):
            text = f"{ENVIRONMENT}={shown(value)}: only the process that starts workers sets this variable; remove it"
            raise LocalError(text) from None

    async def begin(self) -> None:
        """Report that requests are served, and end this process when its supervisor has ended."""
        self.line.setblocking(False)
        self.line.send(b"1")
        asyncio.get_running_loop().add_reader(self.line.fileno(), self._on_end)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self.line.fileno())
        os.kill(os.getpid(), signal.SIGTERM)


# The store of workers that were given none: a file in a temporary folder, which is deleted when the last one ends.

if sys.platform != "win32":
    import fcntl

_URL: Final = "sqlite:///"
_FILE: Final = "store.db"


class TemporaryStore:
    """The store as one process sees it: the supervisor, which makes the folder, or a worker.

    Each of them has a shared lock of the folder. The system releases it when a process is killed, so that who gets an
    exclusive lock is the last one.
    """

    def __init__(self, folder: Path) -> None:
        """Use the store in a folder."""
        self.url = f"{_URL}{folder}/{_FILE}"
        self.folder = folder
        self._before_end: Callable[[], None] | None = None
        self._lock = os.open(folder, os.O_RDONLY)
        self._try_lock(exclusive=False)

    @classmethod
    def create(cls) -> TemporaryStore:
        """Return a store in a new folder."""
        return cls(Path(tempfile.mkdtemp(prefix="mcp-")))

    @classmethod
    def of_worker(cls, url: str, before_end: Callable[[], None] | None = None) -> TemporaryStore:
        """Return the store of a worker, which ends with SIGTERM: its server raises it once more when it has ended. Then
        `before_end` is called."""
        store = cls(Path(url.removeprefix(_URL)).parent)
        store._before_end = before_end
        signal.signal(signal.SIGTERM, store._on_end)
        return store

    def release(self) -> None:
        """Delete the folder if no other process has it."""
        if self._try_lock(exclusive=True):
            self.delete()

    def delete(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _try_lock(self, exclusive: bool) -> bool:
        """Return False if another process has the folder, or if the file system knows no locks."""
        with suppress(OSError):
            if sys.platform != "win32":
                fcntl.flock(self._lock, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                return True
        return False

    def _on_end(self, number: int, frame: FrameType | None) -> None:
        if self._before_end is not None:
            self._before_end()
        self.release()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


_log: Final = logging.getLogger("mcp_runtime.workers.supervisor")

_START_SECONDS: Final = 60.0  # Seconds for a worker to serve.
_TICK: Final = 0.1  # Seconds between two looks at the workers.
_MAX_FAILURES: Final = 3  # Workers that end one after another before they have served.
_PAUSE_SECONDS: Final = 5.0  # Seconds before the next start, where one has failed and other workers serve.
_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP")


class WorkerFailedError(LocalError):
    """The workers of an endpoint end before they serve."""


class _Child:
    """A worker process, and the line to it: it sends a byte when it serves, and ends when the line is closed."""

    def __init__(self, listener: socket.socket, store: str) -> None:
        own_end, its_end = socket.socketpair()
        self.line = own_end
        with its_end:
            fds = (listener.fileno(), its_end.fileno())
            env = {**os.environ, ENVIRONMENT: f"{fds[0]} {fds[1]} {store}"}
            command = [sys.executable, *sys.orig_argv[1:]]
            # A session of its own: Ctrl-C reaches the supervisor, which ends the workers in order.
            self.process = subprocess.Popen(
                command, env=env, pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.is_serving = False

    def look(self) -> None:
        """Note whether the worker serves."""
        if not self.is_serving and select.select([self.line], [], [], 0)[0]:
            self.is_serving = self.line.recv(1) == b"1"

    def terminate(self) -> None:
        """Let the worker end when its calls have ended."""
        if self.process.poll() is None:
            self.process.terminate()


class Supervisor:
    """The workers of one endpoint. SIGTERM and SIGINT end them; SIGHUP replaces them, one after another."""

    def __init__(
        self, listener: socket.socket, workers: int, store: str, grace: float, folder: Path | None = None
    ) -> None:
        """Create the supervisor.

        Args:
            listener: The listening socket.
            workers: How many workers serve.
            store: The URL of their store.
            grace: Seconds after SIGTERM at which a worker that has not ended is killed.
            folder: Where workers write what they have measured. Default None: nowhere.
        """
        self._listener = listener
        self._workers = workers
        self._store = store
        self._grace = grace
        self._folder = folder
        self._children: list[_Child] = []
        self._leaving: list[tuple[_Child, float]] = []  # Workers that end, and when they are killed.
        self._old: list[_Child] = []  # Workers that are still to be replaced.
        self._failures = 0
        self._start_after = 0.0  # No worker starts before this time.
        self._ended_by: int | None = None

    def run(self, on_serving: Callable[[], None]) -> int:
        """Supervise until a signal; `on_serving` is called when all workers serve. Return the number of the signal.

        Raises WorkerFailedError if workers end before they serve.
        """
        previous = {name: signal.signal(getattr(signal, name), self._on_signal) for name in _SIGNALS}
        try:
            self._children = [self._start() for _ in range(self._workers)]
            self._wait_until_serving()
            if self._ended_by is None:
                on_serving()
            while self._ended_by is None:
                self._tick()
                time.sleep(_TICK)
            return self._ended_by
        finally:
            self._end()
            for name, handler in previous.items():
                signal.signal(getattr(signal, name), handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name == "SIGHUP":  # Windows has no such signal.
            self._old = [*self._children]
        else:
            self._ended_by = number

    def _start(self) -> _Child:
        return _Child(self._listener, self._store)

    def _wait_until_serving(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while self._ended_by is None and not self._all_serve():
            if time.monotonic() > until:
                raise WorkerFailedError(f"a worker has not served within {_START_SECONDS:g} seconds")
            self._tick()
            time.sleep(_TICK / 5)

    def _tick(self) -> None:
        """Replace workers that have ended, and one of those that are to be replaced."""
        now = time.monotonic()
        for child in list(self._children):
            child.look()
            if child.is_serving:
                self._failures = 0
            if (code := child.process.poll()) is not None:
                self._children.remove(child)
                self._replace(child, code)
        for child, until in list(self._leaving):
            if child.process.poll() is not None:
                self._leaving.remove((child, until))
                self._note_end(child)
            elif now > until:
                child.process.kill()
        self._old = [child for child in self._old if child in self._children]
        if now >= self._start_after:
            if len(self._children) < self._workers:
                self._children.append(self._start())
            elif self._old and self._all_serve():
                self._replace_old()

    def _all_serve(self) -> bool:
        return len(self._children) >= self._workers and all(child.is_serving for child in self._children)

    def _replace(self, child: _Child, code: int) -> None:
        """Let a worker start instead of one that has ended by itself: after a pause if the program cannot serve as it
        is now, so that it takes no processor from the workers that do."""
        child.line.close()
        self._note_end(child)
        if not child.is_serving:
            self._failures += 1
            if self._failures >= _MAX_FAILURES:
                raise WorkerFailedError(f"{self._failures} workers have ended before they served, the last with {code}")
            if any(other.is_serving for other in self._children):
                self._start_after = time.monotonic() + _PAUSE_SECONDS
        _log.warning("a worker has ended with the exit code %s; another one starts", code)

    def _note_end(self, child: _Child) -> None:
        if self._folder is None:
            return
        try:
            note_end(self._folder, child.process.pid)
        except OSError as error:
            _log.warning("what a worker that has ended had counted is lost: %s", error)

    def _replace_old(self) -> None:
        """Start a new worker; the old one ends when the new one serves."""
        if len(self._children) <= self._workers:
            self._children.append(self._start())
            return
        old = self._old.pop(0)
        self._children.remove(old)
        self._leave(old)

    def _leave(self, child: _Child) -> None:
        child.terminate()
        self._leaving.append((child, time.monotonic() + self._grace))

    def _end(self) -> None:
        """End all workers, at the latest after the grace."""
        for child in self._children:
            self._leave(child)
        for child, until in self._leaving:
            try:
                child.process.wait(None if until == math.inf else max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            child.line.close()


def check_program() -> None:
    """Raise LocalError if this program cannot be started anew for a worker."""
    if not hasattr(signal, "SIGHUP"):
        raise LocalError(
            "run(): workers= needs POSIX; on Windows, start several processes behind a proxy, with the same store="
        )
    words = sys.orig_argv[1:]
    if not words or words[-1] == "-" or hasattr(sys, "ps1"):
        raise LocalError("run(): workers= starts this program once for each worker: write it into a file")


def supervise(
    listener: socket.socket, workers: int, store: str | None, grace: float, on_serving: Callable[[], None]
) -> int:
    """Serve with several workers until SIGTERM or SIGINT; return the number of the signal.

    Without a store, the workers share a SQLite file in a temporary folder, which is deleted at the end, by the last
    worker if this process is killed.
    """
    if store is not None:
        return Supervisor(listener, workers, store, grace).run(on_serving)
    temporary = TemporaryStore.create()
    try:
        return Supervisor(listener, workers, temporary.url, grace, temporary.folder).run(on_serving)
    finally:
        temporary.delete()
