"""The process that starts the workers of an endpoint, replaces those that end, and ends all of them.

A worker is this program once more: it gets the listening socket, and serves where the first process supervises.
"""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from ....errors import LocalError
from .temporary_store import TemporaryStore
from .worker_process import ENVIRONMENT

_log: Final = logging.getLogger(__name__)

_START_SECONDS: Final = 60.0  # Seconds for a worker to serve.
_TICK: Final = 0.1  # Seconds between two looks at the workers.
_MAX_FAILURES: Final = 3  # Workers that end one after another before they have served.
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

    def __init__(self, listener: socket.socket, workers: int, store: str, grace: float) -> None:
        """Create the supervisor.

        Args:
            listener: The listening socket.
            workers: How many workers serve.
            store: The URL of their store.
            grace: Seconds after SIGTERM at which a worker that has not ended is killed.
        """
        self._listener = listener
        self._workers = workers
        self._store = store
        self._grace = grace
        self._children: list[_Child] = []
        self._leaving: list[tuple[_Child, float]] = []  # Workers that end, and when they are killed.
        self._old: list[_Child] = []  # Workers that are still to be replaced.
        self._failures = 0
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
        while self._ended_by is None and not all(child.is_serving for child in self._children):
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
            elif now > until:
                child.process.kill()
        self._old = [child for child in self._old if child in self._children]
        if self._old and all(child.is_serving for child in self._children):
            self._replace_old()

    def _replace(self, child: _Child, code: int) -> None:
        """Start a worker instead of one that has ended by itself."""
        child.line.close()
        if not child.is_serving:
            self._failures += 1
            if self._failures >= _MAX_FAILURES:
                raise WorkerFailedError(f"{self._failures} workers have ended before they served, the last with {code}")
        _log.warning("a worker has ended with the exit code %s; another one starts", code)
        self._children.append(self._start())

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
        return Supervisor(listener, workers, temporary.url, grace).run(on_serving)
    finally:
        temporary.delete()
