"""A keep-alive timer for any number of SSE streams."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

KEEP_ALIVE: Final = 15.0  # Seconds without a message after which a comment is sent, so that no proxy closes the stream.
_PARTS: Final = 32  # Streams that begin to wait in the same one of so many parts of the time have one deadline.


class Waiting(Protocol):
    """What waits for something to send: a future, or what does without one."""

    def done(self) -> bool:
        """Return True if it waits no more."""
        ...

    def set_result(self, result: bool, /) -> None:
        """Let it go on, with True if there may be something to send."""
        ...


class KeepAliveTimer:
    """Gives what waits the result False if it is not done within `seconds`, or slightly less.

    One timer handle serves all of them, and those that begin to wait at about the same time share a deadline, to save
    memory.
    """

    def __init__(self, seconds: float = KEEP_ALIVE) -> None:
        self.seconds = seconds
        self._parts: deque[tuple[float, dict[Waiting, None]]] = deque()  # With their deadlines, in order.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """The number of streams on which nothing is sent at present."""
        return sum(len(part) for _, part in self._parts)

    def begin(self, waiting: Waiting) -> None:
        """Set the result to False after `seconds`, unless it is done by then or `end` is called."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.seconds
        if not self._parts or deadline > self._parts[-1][0] + self.seconds / _PARTS:
            self._parts.append((deadline, {}))
        self._parts[-1][1][waiting] = None
        if self._timer is None:
            self._timer = loop.call_at(self._parts[0][0], self._on_timer, loop)

    def end(self, waiting: Waiting) -> None:
        """Let something wait without this timer."""
        for _, part in reversed(self._parts):  # Most wait shortly.
            if waiting in part:
                del part[waiting]
                return

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the results that are due."""
        while self._parts and self._parts[0][0] <= loop.time():
            for waiting in self._parts.popleft()[1]:
                if not waiting.done():
                    waiting.set_result(False)
        self._timer = loop.call_at(self._parts[0][0], self._on_timer, loop) if self._parts else None
