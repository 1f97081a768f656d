"""A descriptor and a callback go in; the callback runs as soon as the event loop finds that there is something to read."""

from __future__ import annotations

import logging
import os
import select
import selectors
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from . import fast_paths

_log: Final = logging.getLogger(__name__)

_SPIN_SECONDS: Final = 50e-6  # How long to look for the next message before sleeping, if the last came that soon.


def inline_selector() -> InlineSelector | None:
    """Return a selector that runs callbacks by itself; None for asyncio's own, where the platform has no poll of
    terminals or the fast paths are switched off."""
    return InlineSelector(fast_paths.BUSY_POLL) if sys.platform == "linux" and fast_paths.ENABLED else None


class ReaderRegistry(Protocol):
    """Where somebody can wait for a descriptor to be readable: an event loop, or its selector."""

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...


class InlineSelector(selectors.DefaultSelector):
    """The selector of an event loop that calls back by itself.

    The loop would queue a callback, in a context of its own, and run it after it has looked at everything else, which
    for calls that come one after the other is up to a tenth of what each of them costs.
    """

    def __init__(self, busy_poll: bool = True) -> None:
        super().__init__()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._ready = select.poll()  # Of the descriptors with a callback, and of the selector for all others.
        self._ready.register(self.fileno(), select.POLLIN)
        self._busy_poll = busy_poll
        self._was_quick = False

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> None:
        """Call back each time there is something to read; a regular file always has."""
        self._callbacks[fd] = callback
        self._ready.register(fd, select.POLLIN)

    def remove_reader(self, fd: int, /) -> None:
        self._ready.unregister(fd)
        del self._callbacks[fd]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What the loop itself waits for, once the callbacks of what is ready have run."""
        others = False
        for fd, _ in self._wait(timeout):
            callback = self._callbacks.get(fd)
            if callback is None:
                others = True
                continue
            try:
                callback()
            except Exception:
                _log.exception("what was read could not be taken")
        return super().select(0) if others else []

    def _wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """What is ready, at the latest after `timeout` seconds.

        To fall asleep and be woken takes longer than most calls: for whoever calls again at once, the answer comes
        earlier, and for less of the processor's time, if nobody sleeps in between. Whoever shares the processor goes
        first.
        """
        if timeout is not None and timeout <= 0:
            return self._ready.poll(0)
        began = monotonic()
        while self._was_quick and self._busy_poll and monotonic() - began < _SPIN_SECONDS:
            if found := self._ready.poll(0):
                return found
            os.sched_yield()
        found = self._ready.poll(None if timeout is None else timeout * 1000)
        self._was_quick = monotonic() - began < _SPIN_SECONDS
        return found
