"""Work that outlives the request it came of goes in; it ends by itself, or with its conversation."""

from __future__ import annotations

import asyncio
from typing import Any, Final

_CANCEL_SECONDS: Final = 0.4  # Seconds to take note of being cancelled.


class BackgroundTasks:
    """All of it, of one conversation."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ended = False

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, coro: asyncio.Future[Any]) -> None:
        """Let work go on; it is cancelled when the conversation ends, or at once where that has ended."""
        self._tasks.add(coro)
        coro.add_done_callback(self._tasks.discard)
        if self._ended:
            coro.cancel()

    async def end(self) -> None:
        """Cancel what goes on, and wait a moment for it to take note."""
        self._ended = True
        for work in self._tasks:
            work.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CANCEL_SECONDS)
