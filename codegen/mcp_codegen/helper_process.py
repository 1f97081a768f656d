"""A second process of the generator: it gets a task as JSON on its standard input, and prints the answer as JSON."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Self


class HelperProcess:
    """Runs a module with a task while this process does something else; without a task it runs nothing.

    At the end of its block the process has ended.
    """

    def __init__(self, module: str, task: dict[str, Any] | None) -> None:
        self._task = task
        self._process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-P", "-m", module]

    def __enter__(self) -> Self:
        if self._task is not None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
            pipe = subprocess.PIPE
            try:
                self._process = subprocess.Popen(
                    self._command, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
                )
            except OSError:  # Without it, this process does everything.
                return self
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(self._task).encode())
                self._process.stdin.close()
            except OSError:  # It has ended.
                pass
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def answer(self) -> Any:
        """Return the answer, or None if there is no process or it has failed."""
        if self._process is None:
            return None
        assert self._process.stdout is not None
        data = self._process.stdout.read()
        return json.loads(data) if self._process.wait() == 0 else None


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
    """Do the task on the standard input, and print its answer."""
    with without_collection():
        answer = work(json.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.buffer.flush()


def processors() -> int:
    """Return the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
