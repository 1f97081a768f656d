"""A second process of the generator: it gets tasks as JSON on its standard input, and answers each in a line."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import IO, Any, Self


class HelperProcess:
    """Runs Python with some words, such as `-m MODULE`, to do tasks while this process does something else.

    It starts with the first task, or before, and answers the tasks in their order. At the end of its block the process
    has ended.
    """

    def __init__(self, *words: str) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        # Pipes hold 64 KiB: threads write and read, so that neither process waits for the other.
        self._tasks: SimpleQueue[bytes | None] = SimpleQueue()  # None is the end.
        self._answers: SimpleQueue[bytes] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._tasks.put(None)
            for thread in self._threads:
                thread.join()

    def start(self, *arguments: str) -> None:
        """Start the process, with arguments. Where it cannot start, this process does everything."""
        command = [sys.executable, "-P", *self._words, *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
        pipe = subprocess.PIPE
        with suppress(OSError):
            self._process = subprocess.Popen(
                command, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
            )
            self._threads = [
                threading.Thread(target=self._write, args=(self._process.stdin,), name="tasks"),
                threading.Thread(target=self._read, args=(self._process.stdout,), name="answers"),
            ]
            for thread in self._threads:
                thread.start()

    def send(self, kind: str, tasks: Sequence[object]) -> None:
        """Send tasks of a kind. Without tasks no process is started."""
        if tasks and self._process is None:
            self.start()
        for task in tasks:
            self._tasks.put(json.dumps([kind, task]).encode() + b"\n")

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:  # The process may have ended.
            while (line := self._tasks.get()) is not None:
                pipe.write(line)
                pipe.flush()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._answers.put(line)
        self._answers.put(b"")  # The process has ended.

    def answer(self) -> Any:
        """Return the answer to the next task, or None if there is no process or it has failed."""
        if self._process is None:
            return None
        line = self._answers.get()
        if not line.endswith(b"\n"):
            self._answers.put(b"")  # Nor will there be another answer.
            return None
        return json.loads(line)


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


def answer_parent(work: Mapping[str, Callable[[Any], object]]) -> None:
    """Do the tasks on the standard input by their kinds, and print the answer to each in a line."""
    with without_collection():
        for line in sys.stdin.buffer:
            kind, task = json.loads(line)
            sys.stdout.buffer.write(json.dumps(work[kind](task)).encode() + b"\n")
            sys.stdout.buffer.flush()


def processors() -> int:
    """Return the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
