"""Functions that worker threads run for an event loop, and the loop's wait for their results."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from contextvars import Context
from time import monotonic, perf_counter
from typing import Any, Final

from mcp_runtime.aio.threads import MAX_THREADS, ThreadedCall, WorkerThreads, calling_client

_WAIT_SECONDS: Final = 0.0002  # Seconds for which an event loop waits for one function.
_BATCH_SECONDS: Final = 0.005  # Seconds for which it waits for all functions in the queue, while there is progress.
_SLICE_SECONDS: Final = 0.0005  # Seconds in which one of these has to end.
_QUICK_SECONDS: Final = 0.0001  # Seconds that a function may take; after longer ones there is a pause without waiting.
_PAUSE_SECONDS: Final = 0.001, 1.0  # The second pause, which doubles up to the other; the first is none.

_THREAD: Final = threading.local()


class QuickCall(ThreadedCall):
    """A function that its event loop may wait for. It is counted for its client when the loop stops waiting."""

    __slots__ = ("is_counted", "state")

    state: LoopState
    is_counted: bool

    def __await__(self) -> Generator[Any, None, None]:
        """Let the reading thread that runs the coroutine run the function; if the event loop has taken over the call
        then, wait for its result."""
        yield self
        if self.future is not None:
            yield from self.future


class IdleThread:
    """A worker thread with nothing to do. It waits for `wake`, then runs `work`, or what is in the queue."""

    __slots__ = ("_lock", "work")

    def __init__(self) -> None:
        self.work: QuickCall | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """End the wait of the thread."""
        self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait in the thread for `wake`, which may have come. Return False after so many seconds; -1 for no limit."""
        return self._lock.acquire(timeout=seconds)


class LoopState:
    """What an event loop waits for, and what has ended meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ended: list[QuickCall] = []  # While the event loop waits for all functions in the queue.
        self._lock = threading.Lock()
        self.watching = False  # True while a timer of the event loop is going to look at the queue.
        self.collecting = False  # True while a callback of the event loop is going to call `collect`.
        self.awaited: QuickCall | None = None  # The function that the event loop waits for.
        self._awaits_all = False  # True while it waits for all functions in the queue.
        self._signal = threading.Lock()  # It acquires this to wait, and the worker thread releases it.
        self._signal.acquire()
        self._is_first = True  # False if a function has come in this iteration of the event loop already.
        self._pause = 0.0
        self.paused_until = 0.0

    def is_first(self) -> bool:
        """Return True for the first function of an iteration of the event loop."""
        first = self._is_first
        self._is_first = False
        if first:
            self.loop.call_soon(self._begin_iteration)
        return first

    def _begin_iteration(self) -> None:
        self._is_first = True

    def wait(self, work: QuickCall, thread: IdleThread, began: float, count: Callable[[QuickCall], None]) -> bool:
        """Let a thread run the function that is awaited, and wait for it shortly. Return False if it has not ended:
        `count` was called with it then, and it has a future. It `began` now, by `perf_counter`."""
        ended = False
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
            for work in results:
                work.settle()
        if waits:
            self._note(began, len(results))
        return bool(results)

    def _note(self, began: float, ended: int) -> None:
        """Note how long functions took; after slow ones there is a pause."""
        now = perf_counter()
        if now - began < _QUICK_SECONDS * ended:
            self._pause = 0.0
        else:
            self.paused_until = now + self._pause
            self._pause = min(2 * self._pause + _PAUSE_SECONDS[0], _PAUSE_SECONDS[1])

    def add(self, work: QuickCall, more: bool) -> threading.Lock | None:
        """Add what has ended, and return the lock to release if the event loop waits for it. `more` says that other
        functions follow, so that an event loop that waits for all of them need not hear yet."""
        with self._lock:
            if self.awaited is work:
                self.awaited = None
                return self._signal
            if self._awaits_all:
                self._ended.append(work)
                self._awaits_all = more
                return None if more else self._signal
        with suppress(RuntimeError):  # The event loop is closed.
            self.loop.call_soon_threadsafe(work.settle)
        return None


# What a thread that reads and its event loop agree on; programs without such a thread import no more than this.

IDLE_SECONDS: Final = 0.002  # Seconds without a message after which the event loop goes on.

# What the event loop has to do before it goes on.
Handover = Callable[[], object]


def nothing() -> None:
    """Do nothing: the event loop just goes on."""


# A worker thread that reads in the place of an event loop: a fast path on Linux.
#
# A function in a worker thread costs two hand-overs, from the event loop to the thread and back, which take longer than
# most functions. A client that makes one short call after the other needs none: a thread reads each message, runs the
# function and writes the response, while the thread of the event loop waits. So only one of the two runs code of the
# session at any time. The event loop goes on when there is anything else to do for it, and when a function takes longer
# than two milliseconds: then the call goes on as a task, as a call of the event loop does.

_log: Final = logging.getLogger("mcp_runtime.fast.worker_threads")

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
        begin_late: Callable[[QuickCall], None],
        end_late: Callable[[QuickCall], None],
    ) -> None:
        """Start a thread for an event loop. The functions are called when that takes over the call of a function, and
        when this function ends."""
        self.state = LoopState(loop)
        self._begin_late = begin_late
        self._end_late = end_late
        self._idle = IdleThread()
        self._guard = threading.Lock()  # Held to begin and end functions, and to take them over.
        self._signal = threading.Lock()  # The event loop acquires this to wait, and the thread releases it.
        self._signal.acquire()
        self._serve: Serve | None = None  # None while the event loop reads itself.
        self._until: float | None = None
        self._handover: Handover = nothing
        self._function: QuickCall | None = None  # The function that runs.
        self._adopt: Callable[[Any], None] | None = None
        self._count = 0  # Functions that have begun and ended: odd while one runs.
        self._has_ended = False
        threading.Thread(target=self._run, name="mcp handler", daemon=True).start()

    # ---- the thread of the event loop --------------------------------------------------------------------------------

    def lend(self, serve: Serve, timeout: float | None) -> bool:
        """Let the thread serve messages, for `timeout` seconds at most, and wait for it. Return False if it has ended.

        Raises what is not an Exception, and what a signal handler raises meanwhile.
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
                if type(waits_for) is not QuickCall:
                    return lambda: adopt(waits_for)
                if not self._run_function(waits_for, adopt):
                    return nothing
        except StopIteration:
            return None

    def _run_function(self, work: QuickCall, adopt: Callable[[Any], None]) -> bool:
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


# The threads, which take one function after the other from a queue. Functions that block get threads of their own
# within two milliseconds.
#
# To be woken by another thread costs an event loop more than most functions take. So it waits for them: for one that is
# alone at most 0.2 ms, for several while they end one after the other, at most 5 ms, not soon again if they took long.

IDLE_THREAD_SECONDS: Final = 10.0  # Seconds after which a thread with nothing to do ends.
_STALL_SECONDS: Final = 0.001  # Seconds without progress after which other threads take what is in the queue.


class QuickThreads(WorkerThreads):
    """Up to 256 daemon threads, which clients share: started on demand, and ended after 10 s without work."""

    def reset(self) -> None:
        """Begin without threads."""
        super().reset()
        self._line: deque[QuickCall] = deque()
        self._parked: list[IdleThread] = []
        self._started = 0  # Functions that threads have begun, to see whether there is progress.

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread and return its result. Cancelling stops the waiting, and the function if it has
        not begun."""
        if (reading := getattr(READING, "thread", None)) is not None:
            return await self._run_here(reading, function, arguments)
        loop = asyncio.get_running_loop()
        state: LoopState | None = getattr(_THREAD, "state", None)
        if state is None or state.loop is not loop:
            state = _THREAD.state = LoopState(loop)
            READING.thread = None  # To look for an attribute that a thread lacks costs as much as a short function.
        work = QuickCall(function, arguments, loop)
        work.state = state
        work.is_counted = False
        is_quick = (began := perf_counter()) >= state.paused_until
        thread = self._idle_thread(work) if is_quick and state.is_first() else None
        if thread is None:
            watches = self._enqueue(work, is_quick)
        elif state.wait(work, thread, began, self._count):
            if work.has_callbacks:
                await asyncio.sleep(0)
            if work.error is not None:
                raise work.error
            return work.result
        else:
            watches = True
        if watches and not state.watching:
            self._watch(state)
        assert work.future is not None
        try:
            return await work.future
        except asyncio.CancelledError:
            self._leave(work)
            raise

    async def _run_here(self, reading: ReadingThread, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run a function in the thread that reads messages."""
        work = QuickCall(function, arguments, reading.state.loop)
        work.state = reading.state
        work.is_counted = False
        work.hurry = reading.hurry
        await work
        if work.has_callbacks or work.error is not None:  # What handles errors needs the event loop.
            await asyncio.sleep(0)
        if work.error is not None:
            raise work.error
        return work.result

    def reading_thread(self) -> ReadingThread:
        """Start a thread that reads in the place of the running event loop."""
        return ReadingThread(asyncio.get_running_loop(), self._count, lambda work: self._end(work.client))

    def _idle_thread(self, work: QuickCall) -> IdleThread | None:
        """Take a thread for a function that is alone; None if others are in the queue, or run."""
        with self._lock:
            if self._line or not self._parked or len(self._parked) != self._threads:
                return None
            thread = self._parked.pop()
        thread.work = work.state.awaited = work
        return thread

    def _count(self, work: QuickCall) -> None:
        """Count a function that an event loop waits for no longer."""
        work.client = calling_client()
        with self._lock:  # A thread that sees the mark waits for the count.
            work.is_counted = True
            self._shares[work.client] = self._shares.get(work.client, 0) + 1
            self._total += 1

    def _enqueue(self, work: QuickCall, is_quick: bool) -> bool:
        """Add a function to the queue. Return whether to watch the queue."""
        state = work.state
        work.client = calling_client()
        work.is_counted = True
        work.future = state.loop.create_future()
        with self._lock:
            busy = self._threads > len(self._parked)
            if not self._admit(work):
                return busy
            idle = is_quick and not busy and bool(self._parked)
            woken = self._employ(1) if not busy and not idle else ()
        _wake(woken)
        if idle:
            self._collect_soon(state)
        return busy

    def _collect_soon(self, state: LoopState) -> None:
        """Wait for the functions in the queue after all callbacks that the event loop has got."""
        if not state.collecting:
            state.collecting = True
            state.loop.call_soon(self._collect, state)

    def _collect(self, state: LoopState) -> None:
        state.collecting = False
        progress = state.collect(self._employ_one)
        if self._line and progress:
            self._collect_soon(state)
        elif self._line and not state.watching:
            self._watch(state)

    def _employ_one(self) -> bool:
        """Wake or start a thread for the queue, unless one is busy. Return False if the queue is empty."""
        with self._lock:
            idle = self._employ(int(bool(self._line) and self._threads == len(self._parked)))
            waits = bool(self._line)
        _wake(idle)
        return waits

    def _put(self, work: Any) -> None:
        self._line.append(work)

    def _employ(self, count: int) -> list[IdleThread]:
        """Start threads for so many functions, and return those to wake after the lock, which is held, is released."""
        idle: list[IdleThread] = []
        for _ in range(count):
            if self._parked:
                idle.append(self._parked.pop())
            elif self._threads < MAX_THREADS:
                self._start_thread()
        return idle

    def _watch(self, state: LoopState) -> None:
        """Look soon whether the functions in the queue wait for others that block."""
        state.watching = True
        state.loop.call_later(_STALL_SECONDS, self._on_timer, state, self._started)

    def _on_timer(self, state: LoopState, started: int) -> None:
        state.watching = False
        if self._line:
            if self._started == started:
                with self._lock:
                    idle = self._employ(len(self._line))
                _wake(idle)
            self._watch(state)

    def _run_thread(self) -> None:
        queue, thread = self._line, IdleThread()
        signal: threading.Lock | None = None  # What an event loop waits for.
        while True:
            work = thread.work
            thread.work = None
            if work is None:
                try:
                    work = queue.popleft() if queue else None
                except IndexError:  # Another thread has taken it.
                    continue
                if work is None:
                    if not self._wait(thread, signal):
                        return
                    signal = None
                    continue
            if signal is not None:
                signal.release()
            self._started += 1
            work.run()
            if is_counted := work.is_counted:
                self._end(work.client)
            signal = work.state.add(work, more=bool(queue))
            if not is_counted and work.is_counted:  # The event loop has stopped waiting meanwhile.
                self._end(work.client)
            del work  # An idle thread has no reference to the last request.

    def _wait(self, thread: IdleThread, signal: threading.Lock | None) -> bool:
        """Wait for a function. Return False if the thread has to end. Release `signal` before the wait, so that the
        event loop that waits for it gets the interpreter at once."""
        with self._lock:
            empty = not self._line
            if empty:
                self._parked.append(thread)
        if signal is not None:
            signal.release()
        if not empty or thread.wait(IDLE_THREAD_SECONDS):
            return True
        with self._lock:
            if thread in self._parked:
                self._parked.remove(thread)
                self._threads -= 1
                return False
        return thread.wait(-1)  # It has been taken meanwhile, and is released soon.


def _wake(threads: Iterable[IdleThread]) -> None:
    for thread in threads:
        thread.wake()


WORKER_THREADS: Final = QuickThreads()

if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=WORKER_THREADS.reset)
