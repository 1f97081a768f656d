"""An event loop whose time passes only when nothing is due, so that weeks take no time and each run is the same.

Kept libraries set the clock of a loop forward, and wait with the selector of the system. Nothing here waits for the
system, so that a selector which passes time is all that is needed.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import secrets
import selectors
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mcp_runtime.aio import clock

BEGIN = 1_800_000_000.0  # The wall time at which each simulation begins.
_ResultT = TypeVar("_ResultT")


class StuckError(Exception):
    """Nothing is due at any time, and the simulation has not ended."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall_ahead = 0.0  # By how much the wall clock was set forward, or back.
        super().__init__(_Passing(self))

    def time(self) -> float:
        """The simulated time."""
        return self.now

    def wall(self) -> float:
        """The simulated time since the epoch."""
        return BEGIN + self.now + self.wall_ahead


class _Passing(selectors.BaseSelector):
    """Where a loop waits: time passes instead. The pipe that wakes a loop up is registered here, and never needed."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, fileobj, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError
        if timeout > 0:
            self._loop.now = max(self._loop.now + timeout, math.nextafter(self._loop.now, math.inf))
        return []


@contextmanager
def simulated(seed: object) -> Iterator[tuple[SimulatedLoop, random.Random]]:
    """A loop, and the random numbers of everything that runs on it, also those that are secrets elsewhere."""
    chance = random.Random(str(seed))
    loop = SimulatedLoop()
    wall, monotonic, token_bytes = clock.wall, clock.monotonic, secrets.token_bytes
    clock.wall = loop.wall  # type: ignore[assignment]
    clock.monotonic = loop.time  # type: ignore[assignment]
    secrets.token_bytes = lambda nbytes=32: chance.randbytes(nbytes or 32)
    gc.disable()  # What is collected when depends on what has run before.
    try:
        yield loop, chance
    finally:
        clock.wall = wall
        clock.monotonic = monotonic
        secrets.token_bytes = token_bytes
        gc.enable()


def run(seed: object, main: Callable[[SimulatedLoop, random.Random], Awaitable[_ResultT]]) -> _ResultT:
    """Return the result of a coroutine function; what it leaves is cancelled."""
    with simulated(seed) as (loop, chance):
        loop.set_exception_handler(lambda *_: None)  # Processes that were killed leave what nobody has read.
        try:
            return loop.run_until_complete(asyncio.ensure_future(main(loop, chance), loop=loop))  # type: ignore[arg-type]
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0.001))
            loop.close()
