"""Work that begins for very many connections at the same time, of which only some runs at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

_AT_ONCE: Final = 512
_SECONDS: Final = 0.05  # Seconds after which work that waits for a client or a store keeps nobody waiting.

Begin = Callable[[], asyncio.Task[Any] | None]


class WorkInTurn:
    """Begins work, up to 512 pieces at once: with thousands of streams, all at once would take the memory of a request
    for each. What takes longer than a moment does not count any more."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._running: set[asyncio.Task[Any]] = set()
        self._waiting: deque[Begin] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, work: Begin) -> None:
        """Call a function that begins work and returns its task, None if it has ended: now, or in its turn."""
        self._waiting.append(work)
        self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting and len(self._running) < _AT_ONCE:
            task = self._waiting.popleft()()
            if task is not None and not task.done():
                self._running.add(task)
                task.add_done_callback(self._on_end)
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._on_timer)

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._begin_next()

    def _on_timer(self) -> None:
        self._timer = None
        self._running.clear()
        self._begin_next()
