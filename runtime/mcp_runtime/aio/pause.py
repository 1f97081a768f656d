"""A gate that pauses readers while there is at least one reason to."""

from __future__ import annotations

import asyncio


class PauseGate:
    """Counts calls of `pause` and `resume`; readers wait until both are equal."""

    def __init__(self) -> None:
        self._reasons = 0
        self._free = asyncio.Event()
        self._free.set()

    def pause(self) -> None:
        """Pause readers until `resume` is called as often as `pause`."""
        self._reasons += 1
        self._free.clear()

    def resume(self) -> None:
        """Undo one call of `pause`."""
        self._reasons -= 1
        if not self._reasons:
            self._free.set()

    async def wait(self) -> None:
        """Wait while readers are paused."""
        await self._free.wait()
