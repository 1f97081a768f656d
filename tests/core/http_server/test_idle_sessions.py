"""A session ends when it was not used for as long as it may be idle, and not before; time is what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from mcp_runtime.transports.http_server.events import InMemoryEventStore
from mcp_runtime.transports.http_server.sessions import LocalSessions, SessionFactory

IDLE = 100.0


class Clock:
    """What sessions need of an event loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: dict[asyncio.Future[None], tuple[float, Callable[[], None]]] = {}
        self.loop = asyncio.new_event_loop()

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.Future[None]:
        timer: asyncio.Future[None] = self.loop.create_future()
        self.timers[timer] = (self.now + delay, callback)
        return timer

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        self.loop.run_until_complete(work)
        done: asyncio.Future[None] = self.loop.create_future()
        done.set_result(None)
        return done

    def go_to(self, now: float) -> None:
        self.now = now
        for timer, (due, callback) in list(self.timers.items()):
            if due <= now:
                del self.timers[timer]
                if not timer.cancelled():
                    callback()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return clock


def unconnected() -> LocalSessions:
    """Sessions that are opened and found, but never given to a server."""
    return LocalSessions(cast(SessionFactory, None), InMemoryEventStore(), 10, IDLE)


@pytest.mark.parametrize("step", [0.01, 0.5, 30.0, 99.0])
def test_a_session_that_is_used_does_not_end_and_then_ends_in_its_time(clock: Clock, step: float) -> None:
    sessions = unconnected()
    used, other = sessions.open(None), sessions.open(None)
    assert used is not None and other is not None
    last = 0.0
    for turn in range(1, 4 + int(2 * IDLE / step)):
        last = turn * step
        clock.go_to(last)
        assert sessions.current(used.id, None) is used
    assert sessions.current(other.id, None) is None, "it was not used"
    clock.go_to(last + 0.99 * IDLE)
    assert sessions.count == 1
    clock.go_to(last + 1.01 * IDLE)
    assert sessions.count == 0
    clock.loop.close()


def test_the_session_used_least_lately_ends_first(clock: Clock) -> None:
    sessions = unconnected()
    opened = [sessions.open(None) for _ in range(3)]
    for at, session in ((10.0, opened[2]), (20.0, opened[0]), (30.0, opened[1])):
        clock.go_to(at)
        assert session is not None and sessions.current(session.id, None) is session
    counts = []
    for at in (109.0, 111.0, 121.0, 131.0):
        clock.go_to(at)
        counts.append(sessions.count)
    assert counts == [3, 2, 1, 0]
    clock.loop.close()
