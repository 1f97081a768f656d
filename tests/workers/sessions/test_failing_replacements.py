"""Workers of a program that cannot serve any more: those that do go on, and nothing is started without a pause."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_products.workers import supervisor as supervisors
from mcp_products.workers.supervisor import Supervisor, WorkerFailedError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX")


class Child:
    """A worker that serves, or has ended with a code."""

    def __init__(self, code: int | None = None) -> None:
        self.code = code
        self.process = self.line = self
        self.is_serving = code is None
        self.pid = 0

    def look(self) -> None:
        """There is no line."""

    def poll(self) -> int | None:
        return self.code

    def close(self) -> None:
        """Nothing is open."""

    def terminate(self) -> None:
        self.code = 0


class Started(Supervisor):
    """A supervisor whose workers are as the program is now."""

    def __init__(self, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(listener, 2, "memory", 1.0)
        self.now = 1000.0
        self.code: int | None = None
        self.starts = 0
        self._children: list[Any] = [Child(), Child()]
        monkeypatch.setattr(supervisors.time, "monotonic", lambda: self.now)

    def _start(self) -> Any:
        self.starts += 1
        return Child(self.code)

    def ticks(self, count: int, seconds: float = 0.0) -> None:
        self.now += seconds
        for _ in range(count):
            self._tick()

    def reload(self) -> None:
        self._on_signal(signal.SIGHUP, None)

    @property
    def workers(self) -> list[Any]:
        return self._children

    @property
    def serving(self) -> int:
        return sum(child.is_serving and child.code is None for child in self._children)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    with socket.socket() as listener:
        yield Started(listener, monkeypatch)


def test_a_reload_of_a_program_that_fails_is_tried_again_after_a_pause_until_it_serves(started: Started) -> None:
    started.code = 3
    started.reload()
    started.ticks(100)
    assert started.starts == 1 and started.serving == 2
    started.ticks(100, seconds=6)
    assert started.starts == 2 and started.serving == 2
    started.code = None
    old = list(started.workers)
    started.ticks(100, seconds=6)
    assert started.starts == 4 and started.serving == 2
    assert not set(old) & set(started.workers), "both are replaced"


def test_a_worker_that_was_killed_is_replaced_at_once(started: Started) -> None:
    started.workers[0].code = -9
    started.ticks(1)
    assert started.starts == 1 and started.serving == 2


def test_workers_that_all_fail_end_the_supervisor_without_a_pause(started: Started) -> None:
    started.code = 3
    for child in started.workers:
        child.is_serving = False
        child.code = 3
    with pytest.raises(WorkerFailedError, match="3 workers have ended before they served"):
        started.ticks(10)
