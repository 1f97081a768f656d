"""Time for tests: the clock of the event loop set forward, and turns of the loop instead of waiting."""

from __future__ import annotations

import asyncio


class LoopClock:
    """The clock of the running event loop, which a test sets forward. The deadline of the test is on it as well."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._ahead, real = 0.0, loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    def forward(self, seconds: float) -> None:
        self._ahead += seconds


async def settle(turns: int = 50) -> None:
    """Let the loop take so many turns: whatever needs neither time nor another process is done after them."""
    for _ in range(turns):
        await asyncio.sleep(0)
