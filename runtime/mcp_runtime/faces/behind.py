"""Work that outlives the request it came of goes in; it ends by itself, or with its conversation."""

from __future__ import annotations

import asyncio
from typing import Any, Final

_CANCEL: Final = 0.4  # Seconds to take note of being cancelled.


class Behind:
    """All of it, of one conversation."""

    def __init__(self) -> None:
        self._going: set[asyncio.Future[Any]] = set()
        self._over = False

    def __len__(self) -> int:
        return len(self._going)

    def add(self, work: asyncio.Future[Any]) -> None:
        """Let work go on; it is cancelled when the conversation ends, or at once where that has ended."""
        self._going.add(work)
        work.add_done_callback(self._going.discard)
        if self._over:
            work.cancel()

    async def end(self) -> None:
        """Cancel what goes on, and wait a moment for it to take note."""
        self._over = True
        for work in self._going:
            work.cancel()
        if self._going:
            await asyncio.wait(list(self._going), timeout=_CANCEL)
