"""Functions that worker threads run for an event loop, and the loop's wait for their results."""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Hashable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Final, TypeVar

from .. import fast_paths

_BATCH: Final = 64  # Results for which the event loop is woken although more functions are in the queue.
_WAIT_SECONDS: Final = 0.0002  # Seconds for which an event loop waits for one function.
_BATCH_SECONDS: Final = 0.005  # Seconds for which it waits for all functions in the queue, while there is progress.
_SLICE_SECONDS: Final = 0.0005  # Seconds in which one of these has to end.
_QUICK_SECONDS: Final = 0.0001  # Seconds that a function may take; after longer ones there is a pause without waiting.
_UNWATCHED: Final = 15  # Functions that are taken as alone in their iterations after so many that were.
_PAUSE_SECONDS: Final = 0.001, 1.0  # The second pause, which doubles up to the other; the first is none.

_THREAD: Final = threading.local()

T = TypeVar("T")


class ThreadedCall:
    """A function to run, and the future of its result, None while nobody awaits it.

    `client` is the client that the function is counted for; None if the process has one client, and while an event
    loop waits for the function, which is not counted before it stops waiting.
    """

    __slots__ = (
        *("arguments", "client", "context", "error", "function", "future", "has_callbacks"),
        *("hurry", "is_counted", "loop", "result"),
    )

    def __init__(self, function: Callable[..., Any], arguments: Any, loop: LoopState) -> None:
        self.function = function
        self.arguments = arguments
        self.loop = loop
        self.client: Hashable = None
        self.is_counted = False
        self.future: asyncio.Future[Any] | None = None
        self.context = contextvars.copy_context()
        self.result: Any = None
        self.error: BaseException | None = None
        # Called before the function waits for the event loop, which may wait for the function.
        self.hurry: Callable[[], None] | None = None
        self.has_callbacks = False  # True if it has given callbacks to the event loop, which come before its result.

    def __await__(self) -> Generator[Any, None, None]:
        """Let the reading thread that runs the coroutine run the function; if the event loop has taken over the call
        then, wait for its result."""
        yield self
        if self.future is not None:
            yield from self.future

    def run(self) -> None:
        """Run the function, unless the caller has been cancelled."""
        if self.future is not None and self.future.cancelled():
            return
        _THREAD.work = self
        try:
            self.result = self.context.run(self.function, *self.arguments)
        except BaseException as error:  # The task that waits for the result handles all exceptions.
            self.error = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        finally:
            _THREAD.work = None

    def settle(self) -> None:
        """Set the result of the future, in its event loop."""
        future = self.future
        if future is None or future.cancelled():
            return
        if self.error is None:
            future.set_result(self.result)
        else:
            future.set_exception(self.error)


class IdleThread:
    """A worker thread with nothing to do. It waits for `wake`, then runs `work`, or what is in the queue."""

    __slots__ = ("_lock", "work")

    def __init__(self) -> None:
        self.work: ThreadedCall | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """End the wait of the thread."""
        self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait in the thread for `wake`, which may have come. Return False after so many seconds; -1 for no limit."""
        return self._lock.acquire(timeout=seconds)

    def close(self) -> None:
        """Free what the thread has waited for."""


if sys.platform == "linux":

    class EventThread(IdleThread):
        """The same with an event of the system. To release a lock keeps the interpreter, for which the thread then
        waits a second time; to write to a descriptor gives it away, which takes a third of the time of both."""

        __slots__ = ("_event", "_poll")

        def __init__(self) -> None:
            """Open descriptors. Raises OSError if the process has too many."""
            self.work = None
            self._poll = select.epoll()
            self._event = os.eventfd(0)
            # An edge for each write: nothing is read, which would give the interpreter away once more.
            self._poll.register(self._event, select.EPOLLIN | select.EPOLLET)

        def wake(self) -> None:
            os.eventfd_write(self._event, 1)

        def wait(self, seconds: float) -> bool:
            return bool(self._poll.poll(seconds, 1))

        def close(self) -> None:
            self._poll.close()
            os.close(self._event)


def new_idle_thread() -> IdleThread:
    """Return what the current thread waits with."""
    if sys.platform == "linux":
        with suppress(OSError):
            return EventThread()
    return IdleThread()


class LoopState:
    """What has ended and waits for its event loop, and what the event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ended: list[ThreadedCall] = []
        self._lock = threading.Lock()
        self.watching = False  # True while a timer of the event loop is going to look at the queues.
        self.collecting = False  # True while a callback of the event loop is going to call `collect`.
        self.awaited: ThreadedCall | None = None  # The function that the event loop waits for.
        self._awaits_all = False  # True while it waits for all functions in the queue.
        self._signal = threading.Lock()  # It acquires this to wait, and the worker thread releases it.
        self._signal.acquire()
        self._is_first = True  # False if a function has come in this iteration of the event loop already.
        self._was_single = True  # False if another one has come after it.
        self._singles = 0  # Iterations in a row with one function, as far as they were looked at.
        self._unwatched = 0  # Functions that are taken as the first ones of their iterations without a look.
        self._pause = 0.0
        self.paused_until = 0.0 if fast_paths.ENABLED else float("inf")

    def is_first(self) -> bool:
        """Return True for the first function of an iteration of the event loop.

        To hear of the next iteration costs the event loop a callback, and often an iteration more. After functions that
        were alone and quick, it does that for one of 16 functions only.
        """
        if self._unwatched:
            self._unwatched -= 1
            return True
        first = self._is_first
        self._is_first = False
        if first:
            self.loop.call_soon(self._begin_iteration)
        else:
            self._was_single = False
        return first

    def _begin_iteration(self) -> None:
        self._singles = self._singles + 1 if self._was_single else 0
        self._is_first = self._was_single = True
        self._unwatched = _UNWATCHED if self._singles > _UNWATCHED else 0

    def wait(self, work: ThreadedCall, thread: IdleThread, count: Callable[[ThreadedCall], None]) -> bool:
        """Let a thread run the function that is awaited, and wait for it shortly. Return False if it has not ended:
        `count` was called with it then, and it has a future."""
        ended, began = False, perf_counter()
        try:
            thread.wake()
            ended = self._signal.acquire(timeout=_WAIT_SECONDS)
        finally:  # Also for an exception of a signal handler.
            if not ended:
                with self._lock:
                    late = self.awaited is None
                    self.awaited = None
                    if not late:
                        work.future = self.loop.create_future()
                        count(work)
                if late:
                    ended = self._signal.acquire()  # The thread has begun to say so.
        self._note(began, 1)
        return ended

    def collect(self, employ: Callable[[], bool]) -> bool:
        """Wait for all functions in the queue while there is progress, and set their results. Return True if some have
        ended. `employ` wakes a thread for them; it returns False if there is nothing to wait for."""
        self._awaits_all = True
        began, count, ended, waits = perf_counter(), 0, False, False
        try:
            waits = employ()
            while waits and not (ended := self._signal.acquire(timeout=_SLICE_SECONDS)):
                before, count = count, len(self._ended)
                if count == before or perf_counter() - began > _BATCH_SECONDS:
                    break
        finally:
            with self._lock:
                late = not self._awaits_all
                self._awaits_all = False
                results = self._ended
                self._ended = []
            if late and not ended:
                self._signal.acquire()
            settle(results)
        if waits:
            self._note(began, len(results))
        return bool(results)

    def _note(self, began: float, ended: int) -> None:
        """Note how long functions took; after slow ones there is a pause."""
        now = perf_counter()
        if now - began < _QUICK_SECONDS * ended:
            self._pause = 0.0
        else:
            self._singles = self._unwatched = 0
            self.paused_until = now + self._pause
            self._pause = min(2 * self._pause + _PAUSE_SECONDS[0], _PAUSE_SECONDS[1])

    def add(self, work: ThreadedCall, more: bool) -> threading.Lock | None:
        """Add what has ended, and return the lock to release if the event loop waits for it. `more` says that other
        functions follow, so that the event loop need not hear yet."""
        with self._lock:
            if self.awaited is work:
                self.awaited = None
                return self._signal
            self._ended.append(work)
            if self._awaits_all:
                if more:
                    return None
                self._awaits_all = False
                return self._signal
            count = len(self._ended)
        if not more or not self.watching or count >= _BATCH:
            self.schedule()
        return None

    def schedule(self) -> None:
        """Let the event loop take the results that there are now, after all callbacks that it has got before them."""
        with self._lock:
            ended = self._ended
            self._ended = []
        if ended and not self.loop.is_closed():
            with suppress(RuntimeError):  # Closed meanwhile.
                self.loop.call_soon_threadsafe(settle, ended)


def settle(ended: Sequence[ThreadedCall]) -> None:
    """Set the results of functions, in their event loop."""
    for work in ended:
        work.settle()


def loop_of_worker() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that waits for the function of this worker thread; None in other threads."""
    work: ThreadedCall | None = getattr(_THREAD, "work", None)
    return None if work is None else work.loop.loop


def call_soon_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: Any) -> None:
    """Call `callback` in an event loop: before the caller gets the result of the function that this worker thread runs.
    Raises RuntimeError if the loop is closed."""
    work: ThreadedCall | None = getattr(_THREAD, "work", None)
    if work is not None:
        work.has_callbacks = True
    loop.call_soon_threadsafe(callback, *arguments)


def run_in_loop(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop, and wait in this worker thread for its result."""
    future = asyncio.run_coroutine_threadsafe(coro, loop)
    work: ThreadedCall | None = getattr(_THREAD, "work", None)
    if work is not None and work.hurry is not None:
        work.hurry()
    return future.result()
