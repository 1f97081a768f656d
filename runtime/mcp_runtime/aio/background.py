"""Background tasks of a connection, which may run longer than the request that has started them."""

from __future__ import annotations

import asyncio
from typing import Any, Final

_CANCEL_SECONDS: Final = 0.4  # Seconds for cancelled tasks to end.


class BackgroundTasks:
    """The background tasks of one connection."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ended = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_ended(self) -> bool:
        """Whether the connection has ended."""
        return self._ended

    def add(self, task: asyncio.Future[Any]) -> None:
        """Add a task, which is cancelled when the connection ends, or now if it has ended."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._ended:
            task.cancel()

    async def end(self) -> None:
        """Cancel all tasks, and wait up to 0.4 s for them to end."""
        self._ended = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CANCEL_SECONDS)
