"""Those who wait for something to say go in; who has waited too long is woken. One timer serves all of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

KEEP_ALIVE: Final = 15.0  # Seconds of silence after which a comment is sent, so that no proxy takes it for death.


class KeepAliveTimer:
    """How long it may last, in `seconds`."""

    def __init__(self, seconds: float = KEEP_ALIVE) -> None:
        self.seconds = seconds
        self._deadlines: OrderedDict[asyncio.Future[bool], float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, waiting: asyncio.Future[bool]) -> None:
        """Give this future the result False after so many seconds, unless it is done by then, or `end` is called."""
        loop = waiting.get_loop()
        self._deadlines[waiting] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._on_timer, loop)

    def end(self, waiting: asyncio.Future[bool]) -> None:
        """Nothing is waited for any more."""
        self._deadlines.pop(waiting, None)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake who has waited too long. They stand in the order in which they came, so this costs what there is to do."""
        self._timer = None
        while self._deadlines:
            waiting, until = next(iter(self._deadlines.items()))
            if until > loop.time():
                self._timer = loop.call_at(until, self._on_timer, loop)
                return
            del self._deadlines[waiting]
            if not waiting.done():
                waiting.set_result(False)
