"""An event loop whose time passes only when nothing is due, so that weeks take no time and each run is the same.

Kept libraries set the clock of a loop forward, and wait with the selector of the system. Nothing here waits for the
system, so that this loop has no selector: half of the time of a simulation would be spent there.
"""

from __future__ import annotations

import asyncio
import gc
import random
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any, TypeVar

from mcp_runtime.aio import clock

BEGIN = 1_800_000_000.0  # The wall time at which each simulation begins.
_ResultT = TypeVar("_ResultT")


class StuckError(Exception):
    """Nothing is due at any time, and the simulation has not ended."""


class _Handle(list[Any]):
    """A context, a function with its arguments that is called in it, and perhaps when. A list is made in less time than
    other objects, and nothing is made as often."""

    __slots__ = ()

    def cancel(self) -> None:
        self[1] = None

    def cancelled(self) -> bool:
        return self[1] is None

    def when(self) -> float:
        return float(self[2])


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop with a time of its own."""

    get_debug = staticmethod(bool)  # type: ignore[assignment]  # Each future asks.

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.wall_ahead = 0.0  # By how much the wall clock was set forward, or back.
        self._due: deque[list[Any]] = deque()
        # A heap of what is called at a time; what was added first comes first. A handle has no function beside it.
        self._later: list[tuple[float, int, Callable[..., object] | None, Any]] = []
        self._added = 0
        self._is_stopped = False
        self._tasks: list[asyncio.Task[Any]] = []

    def stop(self) -> None:
        """End what runs the loop."""
        self._is_stopped = True
        super().stop()

    def time(self) -> float:
        """The simulated time."""
        return self.now

    def wall(self) -> float:
        """The simulated time since the epoch."""
        return BEGIN + self.now + self.wall_ahead

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        """Run a coroutine."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "simulated", context=context)
        self._tasks.append(task)
        return task

    def cancel_all(self) -> None:
        """Cancel what is left. `asyncio.all_tasks` looks at those of all loops that were not collected yet."""
        for task in self._tasks:
            if not task.done():
                task.cancel()
        self._tasks.clear()

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        """Call a function when what is due before was called."""
        # Tasks and futures, which make nearly all of these, have a context, and do not cancel them: a list will do.
        handle: list[Any]
        handle = [context, (callback, *args)] if context is not None else _Handle((copy_context(), (callback, *args)))
        self._due.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        """Call a function some seconds later."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        """Call a function at a time."""
        handle = _Handle((copy_context() if context is None else context, (callback, *args), when))
        self._added += 1
        heappush(self._later, (when, self._added, None, handle))
        return handle

    def happen(self, when: float, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Call a function of the simulation at a time. It has no context, and is not cancelled."""
        self._added += 1
        heappush(self._later, (when, self._added, function, arguments))

    def _run_once(self) -> None:
        """Call what is due, and let time pass until more is."""
        due, later = self._due, self._later
        self._is_stopped = False
        while not self._is_stopped:
            try:
                if due:
                    context, call = due.popleft()
                elif later:
                    when, _, function, what = heappop(later)
                    if function is not None:
                        self.now = when if when > self.now else self.now
                        function(*what)
                        continue
                    context, call, _ = what
                    if call is not None:
                        self.now = when if when > self.now else self.now
                else:
                    raise StuckError
                if call is not None:
                    context.run(*call)
            except (StuckError, SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"message": "a function of a simulation has failed", "exception": error})


@contextmanager
def simulated(seed: object) -> Iterator[tuple[SimulatedLoop, random.Random]]:
    """A loop, and the random numbers of everything that runs on it, also those that are secrets elsewhere."""
    chance = random.Random(str(seed))
    loop = SimulatedLoop()
    wall, monotonic, token_bytes = clock.wall, clock.monotonic, secrets.token_bytes
    clock.wall = loop.wall  # type: ignore[assignment]
    clock.monotonic = loop.time  # type: ignore[assignment]
    secrets.token_bytes = lambda nbytes=32: chance.randbytes(nbytes or 32)
    collects = gc.isenabled()
    gc.disable()  # What is collected when depends on what has run before.
    try:
        yield loop, chance
    finally:
        clock.wall = wall
        clock.monotonic = monotonic
        secrets.token_bytes = token_bytes
        if collects:
            gc.enable()


def run(seed: object, main: Callable[[SimulatedLoop, random.Random], Awaitable[_ResultT]]) -> _ResultT:
    """Return the result of a coroutine function; what it leaves is cancelled."""
    with simulated(seed) as (loop, chance):
        loop.set_exception_handler(lambda *_: None)  # Processes that were killed leave what nobody has read.
        try:
            return loop.run_until_complete(asyncio.ensure_future(main(loop, chance), loop=loop))  # type: ignore[arg-type]
        finally:
            loop.cancel_all()
            loop.run_until_complete(asyncio.sleep(0.001))
            loop.close()
