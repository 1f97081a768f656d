"""Reasons to read no further go in, and those who read wait until there is none left."""

from __future__ import annotations

import asyncio


class PauseGate:
    """Whether more is read."""

    def __init__(self) -> None:
        self._reasons = 0
        self._free = asyncio.Event()
        self._free.set()

    def pause(self) -> None:
        """There is a reason to read no further."""
        self._reasons += 1
        self._free.clear()

    def resume(self) -> None:
        """One that there was is gone."""
        self._reasons -= 1
        if not self._reasons:
            self._free.set()

    async def wait(self) -> None:
        """Wait until there is none."""
        await self._free.wait()
