"""A keep-alive timer for any number of SSE streams."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

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
        self._deadlines: OrderedDict[Waiting, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """The number of streams on which nothing is sent at present."""
        return len(self._deadlines)

    def begin(self, waiting: Waiting) -> None:
        """Set the result to False after `seconds`, unless it is done by then or `end` is called."""
        loop = asyncio.get_running_loop()
        self._deadlines[waiting] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._on_timer, loop)

    def end(self, waiting: Waiting) -> None:
        """Let something wait without this timer."""
        self._deadlines.pop(waiting, None)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the results that are due. They are in the order of their deadlines: only the first are looked at."""
        self._timer = None
        while self._deadlines:
            waiting, until = next(iter(self._deadlines.items()))
            if until > loop.time():
                self._timer = loop.call_at(until, self._on_timer, loop)
                return
            del self._deadlines[waiting]
            if not waiting.done():
                waiting.set_result(False)
