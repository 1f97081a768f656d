"""A second process of the generator: it gets tasks as JSON on its standard input, and prints an answer to each."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Self


class HelperProcess:
    """Runs a module that does tasks while this process does something else. It starts with the first task, or before.

    At the end of its block the process has ended.
    """

    def __init__(self, module: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-P", "-m", module]
        self._sender: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._sender is not None:
                self._sender.join()
            assert self._process.stdin is not None and self._process.stdout is not None
            with suppress(OSError):
                self._process.stdin.close()
            self._process.stdout.close()

    def start(self) -> None:
        """Start the process, which imports what it needs. Where it cannot start, this process does everything."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
        pipe = subprocess.PIPE
        with suppress(OSError):
            self._process = subprocess.Popen(
                self._command, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
            )

    def send(self, tasks: Sequence[dict[str, Any]]) -> None:
        """Send all tasks. Without tasks no process is started."""
        if tasks and self._process is None:
            self.start()
        if tasks and self._process is not None:  # A pipe is too small for the tasks.
            self._sender = threading.Thread(target=self._write, args=(self._process.stdin, tasks), name="tasks")
            self._sender.start()

    @staticmethod
    def _write(pipe: IO[bytes], tasks: Sequence[dict[str, Any]]) -> None:
        with suppress(OSError), pipe:  # The process may have ended.
            pipe.write(json.dumps(tasks).encode())

    def answer(self) -> Any:
        """Return the answer to the next task, or None if there is no process or it has failed."""
        if self._process is None:
            return None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None


@contextmanager
def without_collection() -> Generator[None]:
    """Collect no garbage in a block: a generation takes 100 MiB, and a sixth of its time would be collections."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def answer_parent(work: Callable[[dict[str, Any]], object]) -> None:
    """Do the tasks on the standard input, and print the answer to each in a line."""
    with without_collection():
        for task in json.loads(sys.stdin.buffer.read()):
            sys.stdout.buffer.write(json.dumps(work(task)).encode() + b"\n")
            sys.stdout.buffer.flush()


def processors() -> int:
    """Return the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
