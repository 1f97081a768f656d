"""A keep-alive timer for any number of SSE streams."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from math import nan
from typing import Final, Protocol

_SHARED: Final = 1 / 256  # The part of `seconds` within which deadlines are one: very many streams wait.
KEEP_ALIVE: Final = 15.0  # Seconds without a message after which a comment is sent, so that no proxy closes the stream.


class Waiting(Protocol):
    """What waits for something to send: a future, or what does without one."""

    def done(self) -> bool:
        """Return True if it waits no more."""
        ...

    def set_result(self, result: bool, /) -> None:
        """Let it go on, with True if there may be something to send."""
        ...


class KeepAliveTimer:
    """Gives what waits the result False if it is not done within `seconds`; one timer handle serves all of them."""

    def __init__(self, seconds: float = KEEP_ALIVE) -> None:
        self.seconds = seconds
        self._deadlines: dict[Waiting, float] = {}  # In their order.
        self._last = nan  # The last deadline.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """The number of streams on which nothing is sent at present."""
        return len(self._deadlines)

    def begin(self, waiting: Waiting) -> None:
        """Set the result to False after `seconds`, unless it is done by then or `end` is called."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.seconds
        if not until - self._last <= self.seconds * _SHARED:
            self._last = until
        self._deadlines[waiting] = self._last
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._on_timer, loop)

    def end(self, waiting: Waiting) -> None:
        """Let something wait without this timer."""
        self._deadlines.pop(waiting, None)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the results that are due. They are in the order of their deadlines: only the first are looked at."""
        self._timer = None
        now = loop.time()
        for waiting, _ in list(takewhile(lambda item: item[1] <= now, self._deadlines.items())):
            self.end(waiting)
            if not waiting.done():
                waiting.set_result(False)
        if self._deadlines:
            self._timer = loop.call_at(next(iter(self._deadlines.values())), self._on_timer, loop)
