"""A worker thread that reads in the place of an event loop: a fast path on Linux.

A function in a worker thread costs two hand-overs, from the event loop to the thread and back, which take longer than
most functions. A client that makes one short call after the other needs none: a thread reads each message, runs the
function and writes the response, while the thread of the event loop waits. So only one of the two runs code of the
session at any time. The event loop goes on when there is anything else to do for it, and when a function takes longer
than two milliseconds: then the call goes on as a task, as a call of the event loop does.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from time import monotonic
from typing import Any, Final

from .handover import IDLE_SECONDS, Handover, nothing
from .worker_results import LoopState, ThreadedCall, new_idle_thread

_log: Final = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.001  # Seconds after which the event loop looks whether a function still runs, twice.
_UNUSED_SECONDS: Final = 10.0  # Seconds after which a thread that is not used ends.

# `thread` is the ReadingThread that runs the current coroutine: None in a function that it runs, and in other threads.
READING: Final = threading.local()

# Waits for a message for so many seconds at most and handles it; returns None if the thread may read the next one.
Serve = Callable[["ReadingThread", float], Handover | None]


class ReadingThread:
    """A daemon thread that serves messages while the thread of an event loop waits."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        begin_late: Callable[[ThreadedCall], None],
        end_late: Callable[[ThreadedCall], None],
    ) -> None:
        """Start a thread for an event loop. The functions are called when that takes over the call of a function, and
        when this function ends."""
        self.state = LoopState(loop)
        self._begin_late = begin_late
        self._end_late = end_late
        self._idle = new_idle_thread()
        self._guard = threading.Lock()  # Held to begin and end functions, and to take them over.
        self._signal = threading.Lock()  # The event loop acquires this to wait, and the thread releases it.
        self._signal.acquire()
        self._serve: Serve | None = None  # None while the event loop reads itself.
        self._until: float | None = None
        self._handover: Handover = nothing
        self._function: ThreadedCall | None = None  # The function that runs.
        self._adopt: Callable[[Any], None] | None = None
        self._count = 0  # Functions that have begun and ended: odd while one runs.
        self._has_ended = False
        threading.Thread(target=self._run, name="mcp handler", daemon=True).start()

    # ---- the thread of the event loop --------------------------------------------------------------------------------

    def lend(self, serve: Serve, timeout: float | None) -> bool:
        """Let the thread serve messages, for `timeout` seconds at most, and wait for it. Return False if it has ended.

        Raises what is no Exception, and what a signal handler raises meanwhile.
        """
        with self._guard:
            if self._has_ended:
                return False
            self._until = None if timeout is None else monotonic() + timeout
            self._serve = serve
        raised: BaseException | None = None
        self._idle.wake()
        count = 0
        while True:
            try:
                is_woken = self._signal.acquire(timeout=_TICK_SECONDS)
            except BaseException as error:  # Of a signal handler: the thread stops after its message.
                raised = error
                self._until = 0.0
                continue
            if self._serve is None:
                break
            before, count = count, self._count
            if count % 2 and (is_woken or count == before) and self._take_over(count):
                break
        handover = self._handover
        self._handover = nothing
        try:
            handover()
        except Exception:
            _log.exception("a message that a thread has read was not handled")
        finally:
            if raised is not None:
                raise raised
        return True

    def _take_over(self, count: int) -> bool:
        """Let the call of a function that still runs go on as a task of the event loop."""
        with self._guard:
            work, adopt = self._function, self._adopt
            if self._count != count or work is None or adopt is None:
                return False
            self._has_ended = True
            work.future = self.state.loop.create_future()
            self._begin_late(work)
        adopt(None)
        return True

    # ---- the thread itself -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait():
            serve = self._serve
            assert serve is not None
            try:
                while (handover := serve(self, self._seconds())) is None:
                    pass
            except Exception:
                _log.exception("a thread that reads messages has failed")
                handover = nothing
            except BaseException as error:  # Such as SystemExit, which ends the event loop.
                handover = _raises(error)
            if self._has_ended:
                break
            self._handover = handover
            self._serve = None
            with suppress(RuntimeError):  # The event loop has been woken before.
                self._signal.release()
        self._idle.close()

    def _wait(self) -> bool:
        if self._idle.wait(_UNUSED_SECONDS):
            return True
        with self._guard:
            if self._serve is None:
                self._has_ended = True
                return False
        return self._idle.wait(-1)  # It is being woken.

    def _seconds(self) -> float:
        return IDLE_SECONDS if self._until is None else max(min(IDLE_SECONDS, self._until - monotonic()), 0)

    def run(self, coro: Coroutine[Any, Any, None], context: Context, adopt: Callable[[Any], None]) -> Handover | None:
        """Run a coroutine in this thread, and the functions that it wants to run in one.

        Args:
            coro: The coroutine.
            context: The context to run it in.
            adopt: Makes a task of the event loop of the coroutine that waits for its argument: called there if it waits
                for something else, and if a function takes long.
        """
        try:
            while True:
                READING.thread = self
                try:
                    waits_for = context.run(coro.send, None)
                finally:
                    READING.thread = None
                if type(waits_for) is not ThreadedCall:
                    return lambda: adopt(waits_for)
                if not self._run_function(waits_for, adopt):
                    return nothing
        except StopIteration:
            return None

    def _run_function(self, work: ThreadedCall, adopt: Callable[[Any], None]) -> bool:
        """Run a function. Return False if the event loop has taken over its call meanwhile."""
        self._function = work
        self._adopt = adopt
        self._count += 1
        work.run()
        with self._guard:
            self._count += 1
            self._function = self._adopt = None
            if not self._has_ended:
                return True
        self._end_late(work)
        self.state.add(work, more=False)  # Its event loop waits for no function with this state.
        return False

    def hurry(self) -> None:
        """Let the event loop go on although a function runs: the function is about to wait for it."""
        with suppress(RuntimeError):  # It has been woken already.
            self._signal.release()


def _raises(error: BaseException) -> Handover:
    def handover() -> None:
        raise error

    return handover
