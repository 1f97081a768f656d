"""A selector that runs callbacks of readable descriptors itself: a fast path of the event loop on Linux."""

from __future__ import annotations

import logging
import os
import select
import selectors
import sys
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from .handover import IDLE_SECONDS

if TYPE_CHECKING:
    from .reading_thread import ReadingThread, Serve

assert sys.platform == "linux"  # Other systems use the selector of asyncio.

_log: Final = logging.getLogger(__name__)

_SPIN_SECONDS: Final = 50e-6  # Seconds to poll for the next message before sleeping, if the last one came that soon.


class InlineSelector(selectors.DefaultSelector):
    """The selector of an event loop, which runs the callbacks of readable descriptors itself.

    The event loop would queue a callback and run it in its next iteration, which takes up to a tenth of the time of a
    sequential call.
    """

    def __init__(self, busy_poll: bool = True) -> None:
        super().__init__()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._ready = select.poll()  # Watches the descriptors with a callback, and the selector for all others.
        self._ready.register(self.fileno(), select.POLLIN)
        self._busy_poll = busy_poll
        self._was_quick = False
        self._serve: Serve | None = None  # What a thread does in the place of the event loop, from the next wait on.
        self._thread: ReadingThread | None = None

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> None:
        """Call back each time the descriptor is readable; a regular file always is."""
        self._callbacks[fd] = callback
        self._ready.register(fd, select.POLLIN)

    def remove_reader(self, fd: int, /) -> None:
        """Stop calling back for a descriptor."""
        self._ready.unregister(fd)
        del self._callbacks[fd]

    def read_in_thread(self, serve: Serve) -> None:
        """Let a thread serve messages in the place of the event loop, when that waits next."""
        self._serve = serve

    def wait_for(self, fd: int, seconds: float) -> bool:
        """Wait, in such a thread, until one of the descriptors is readable. Return True if only `fd` is."""
        return [ready for ready, _ in self._wait(seconds)] == [fd]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Run the callbacks of readable descriptors, and return the other events for the event loop."""
        if self._serve is not None and (timeout is None or timeout > IDLE_SECONDS):
            serve = self._serve
            self._serve = None
            while self._thread is None or not self._thread.lend(serve, timeout):
                from .threads import WORKER_THREADS

                self._thread = WORKER_THREADS.reading_thread()
            timeout = 0
        others = False
        for fd, _ in self._wait(timeout):
            callback = self._callbacks.get(fd)
            if callback is None:
                others = True
                continue
            try:
                callback()
            except Exception:
                _log.exception("a reader callback failed")
        return super().select(0) if others else []

    def _wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Return the ready descriptors, after `timeout` seconds at the latest.

        Going to sleep and waking up takes longer than most calls, so busy polling saves latency and processor time if
        the peer sends its next message at once. `sched_yield` lets other processes run first.
        """
        if timeout is not None and timeout <= 0:
            return self._ready.poll(0)
        began = monotonic()
        while self._was_quick and self._busy_poll and monotonic() - began < _SPIN_SECONDS:
            if events := self._ready.poll(0):
                return events
            os.sched_yield()
        events = self._ready.poll(None if timeout is None else timeout * 1000)
        self._was_quick = monotonic() - began < _SPIN_SECONDS
        return events
