"""Time for tests: the clock of the event loop set forward, and turns of the loop instead of waiting."""

from __future__ import annotations

import asyncio

import pytest

from mcp_runtime.aio import clock


class LoopClock:
    """The clock of the running event loop, which a test sets forward. The deadline of the test is on it as well."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._ahead = 0.0
        real = loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    def forward(self, seconds: float) -> None:
        self._ahead += seconds


async def settle(turns: int = 50) -> None:
    """Let the loop take so many turns: whatever needs neither time nor another process is done after them."""
    for _ in range(turns):
        await asyncio.sleep(0)


class MovableClock(LoopClock):
    """The clock of the runtime, which a test sets forward or back. Make it before what reads it.

    A test that moves it by more than its deadline has the mark `deadline`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._wall_ahead = 0.0
        wall, monotonic = clock.wall, clock.monotonic
        monkeypatch.setattr(clock, "wall", lambda: wall() + self._ahead + self._wall_ahead)
        monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + self._ahead)

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back if the number is negative, as who administers a machine does."""
        self._wall_ahead += seconds
