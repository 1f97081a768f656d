"""Parts of uvicorn's connections that take little memory: very many connections wait, and few are ever full."""

from __future__ import annotations

import asyncio
from typing import Any


class SmallFlowControl:
    """uvicorn's flow control of a connection, with an event only while something waits for the client to read."""

    __slots__ = ("read_paused", "write_paused", "_transport", "_writable")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Create the flow control of a connection that is neither paused nor full."""
        self._transport = transport
        self.read_paused = self.write_paused = False
        self._writable: asyncio.Event | None = None

    async def drain(self) -> None:
        """Wait until the client reads."""
        if self.write_paused:
            self._writable = self._writable or asyncio.Event()
            await self._writable.wait()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Let those wait who write."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """Let those go on who write."""
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None


class SmallPipeline(list[tuple[Any, Any]]):
    """The requests of a connection that wait for a response: few have any. It has the methods of a deque."""

    __slots__ = ()

    def appendleft(self, item: tuple[Any, Any]) -> None:
        """Add the last request."""
        self.insert(0, item)
