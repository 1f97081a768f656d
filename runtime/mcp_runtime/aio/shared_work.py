"""Work that many wait for: it belongs to none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextvars import Context
from typing import Any, Generic, TypeVar

from ..errors import ConnectionClosedError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedWork(Generic[T]):
    """A piece of work that is begun by whoever needs it first, and that others join.

    It runs in a task of its own, in an empty context. So nothing of the request that happens to begin it, neither its
    cancellation nor its user, reaches the others. All that wait may be cancelled at any time. A failure goes to all
    that wait, and the next one begins anew.
    """

    def __init__(self, name: str, seconds: float | None = None) -> None:
        """Create work that has not begun.

        Args:
            name: What the work does, for the error of those that wait when it is ended: "reading the tools".
            seconds: Seconds that it may take; all that wait get a TimeoutError then. Default None: no limit.
        """
        self._name = name
        self._seconds = seconds
        self._task: asyncio.Task[T] | None = None

    @property
    def is_running(self) -> bool:
        """True if it has begun, and has not ended."""
        return self._task is not None and not self._task.done()

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the work that runs, or else of new work. Raises what it raises, TimeoutError, and
        ConnectionClosedError if it is ended."""
        return await joined(self.begin(work), self._name)

    def begin(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Begin the work if it does not run, and return its task, which may be waited for, but not awaited."""
        task, loop = self._task, asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            task = loop.create_task(self._bounded(work), context=Context())
            task.add_done_callback(self._ended)
            self._task = task
        return task

    async def _bounded(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with asyncio.timeout(self._seconds):
            return await work()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled():
            task.exception()  # Those that wait have it; without one left, it is of no interest.

    def cancel(self) -> None:
        """End the work, if it runs."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """End the work, and wait until it has ended."""
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait([task])


async def joined(task: asyncio.Task[T], name: str) -> T:
    """Return the result of a task that others wait for too: to cancel this leaves it running.

    Raises what it raises, and ConnectionClosedError if it was cancelled itself: who waits was not.
    """
    if not task.done():
        await asyncio.wait([task])
    if task.cancelled():
        raise ConnectionClosedError(f"{name} was ended")
    return task.result()
