"""Worker threads for synchronous functions; they are daemon threads, so they never prevent the process from exiting.

A thread takes one function after the other from a queue, and an event loop takes all results that are there at once.
Functions that block get threads of their own within two milliseconds. The functions of one client have at most 32
threads, and at most a quarter of those that other clients leave, so that they do not stop the calls of other clients.

To be woken by another thread costs an event loop more than most functions take. So it waits for them: for one that is
alone at most 0.2 ms, for several while they end one after the other, at most 5 ms, not soon again if they took long.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final

from . import fast_paths

_MAX_THREADS: Final = 256
_MAX_OF_CLIENT: Final = 32  # Functions of one client that run or are in the queue; further ones wait for these.
_IDLE_SECONDS: Final = 10.0  # Seconds after which a thread with nothing to do ends.
_STALL_SECONDS: Final = 0.001  # Seconds without progress after which other threads take what is in the queue.
_BATCH: Final = 64  # Results for which the event loop is woken although more functions are in the queue.
_WAIT_SECONDS: Final = 0.0002  # Seconds for which an event loop waits for one function.
_BATCH_SECONDS: Final = 0.005  # Seconds for which it waits for all functions in the queue, while there is progress.
_SLICE_SECONDS: Final = 0.0005  # Seconds in which one of these has to end.
_QUICK_SECONDS: Final = 0.0001  # Seconds that a function may take; after longer ones there is a pause without waiting.
_PAUSE_SECONDS: Final = 0.001, 1.0  # The second pause, which doubles up to the other; the first is none.

_THREAD: Final = threading.local()

# Returns the client whose request runs a function; None if the process has one client.
CALLER: Final[ContextVar[Callable[[], Hashable] | None]] = ContextVar("mcp_caller", default=None)


class _Work:
    """A function to run, and the future of its result, None while nobody awaits it."""

    __slots__ = ("arguments", "client", "context", "error", "function", "future", "loop", "result")

    def __init__(self, function: Callable[..., Any], arguments: Any, loop: _LoopState, client: Hashable) -> None:
        self.function, self.arguments, self.loop, self.client = function, arguments, loop, client
        self.future: asyncio.Future[Any] | None = None
        self.context = contextvars.copy_context()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the function, unless the caller has been cancelled."""
        if self.future is not None and self.future.cancelled():
            return
        try:
            self.result = self.context.run(self.function, *self.arguments)
        except BaseException as error:  # The task that waits for the result handles all exceptions.
            self.error = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error

    def settle(self) -> None:
        """Set the result of the future, in its event loop."""
        future = self.future
        if future is None or future.cancelled():
            return
        if self.error is None:
            future.set_result(self.result)
        else:
            future.set_exception(self.error)


class _LoopState:
    """What has ended and waits for its event loop, and what the event loop waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ended: list[_Work] = []
        self._lock = threading.Lock()
        self.watching = False  # True while a timer of the event loop is going to look at the queues.
        self.collecting = False  # True while a callback of the event loop is going to call `collect`.
        self.awaited: _Work | None = None  # The function that the event loop waits for.
        self._awaits_all = False  # True while it waits for all functions in the queue.
        self._signal = threading.Lock()  # It acquires this to wait, and the worker thread releases it.
        self._signal.acquire()
        self._is_first = True  # False if a function has come in this iteration of the event loop already.
        self._pause, self.paused_until = 0.0, 0.0 if fast_paths.ENABLED else float("inf")

    def is_first(self) -> bool:
        """Return True for the first function of an iteration of the event loop."""
        first, self._is_first = self._is_first, False
        if first:
            self.loop.call_soon(setattr, self, "_is_first", True)
        return first

    def wait(self, work: _Work) -> bool:
        """Wait shortly for the function that is awaited. Return False if it has not ended, but a future from now on."""
        began, ended = perf_counter(), False
        try:
            ended = self._signal.acquire(timeout=_WAIT_SECONDS)
        finally:  # Also for an exception of a signal handler.
            with self._lock:
                late, self.awaited = self.awaited is None, None
                if not late:
                    work.future = self.loop.create_future()
            if late and not ended:
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
                late, self._awaits_all = not self._awaits_all, False
                results, self._ended = self._ended, []
            if late and not ended:
                self._signal.acquire()
            _settle(results)
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

    def add(self, work: _Work, more: bool) -> threading.Lock | None:
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
            ended, self._ended = self._ended, []
        if ended and not self.loop.is_closed():
            with suppress(RuntimeError):  # Closed meanwhile.
                self.loop.call_soon_threadsafe(_settle, ended)


def _settle(ended: Sequence[_Work]) -> None:
    for work in ended:
        work.settle()


class WorkerThreads:
    """Up to 256 daemon threads, which clients share: started on demand, and ended after 10 s without work."""

    def __init__(self) -> None:
        self._queue: deque[_Work] = deque()
        self._lock = threading.Lock()  # Held to add to the queue, and by a thread that has found it empty.
        self._shares: dict[Hashable, int] = {}  # How many functions of a client are in the queue, or run.
        self._total = 0  # Their sum.
        self._waiting: dict[Hashable, deque[_Work]] = {}  # The functions of clients that have no room in the queue.
        self._threads = 0
        self._parked: list[threading.Lock] = []  # One for each thread with nothing to do, which waits to acquire it.
        self._started = 0  # Functions that threads have begun, to see whether there is progress.

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread and return its result. Cancelling stops the waiting, and the function if it has
        not begun."""
        loop = asyncio.get_running_loop()
        state: _LoopState | None = getattr(_THREAD, "state", None)
        if state is None or state.loop is not loop:
            state = _THREAD.state = _LoopState(loop)
        caller = CALLER.get()
        work = _Work(function, arguments, state, None if caller is None else caller())
        waits, watches = self._enqueue(work, perf_counter() >= state.paused_until)
        if waits and state.wait(work):
            if work.error is not None:
                raise work.error
            return work.result
        if watches and not state.watching:
            self._watch(state)
        assert work.future is not None
        try:
            return await work.future
        except asyncio.CancelledError:
            self._leave(work)
            raise

    def _enqueue(self, work: _Work, quick: bool) -> tuple[bool, bool]:
        """Add a function to the queue. Return whether to wait for it, and whether to watch the queue."""
        state, client = work.loop, work.client
        first = quick and state.is_first()
        with self._lock:
            share = self._shares.get(client, 0)
            busy = self._threads > len(self._parked)
            has_room = not share or share < min(_MAX_OF_CLIENT, (_MAX_THREADS - self._total) // 4)
            idle = quick and not busy and bool(self._parked) and has_room
            waits = first and idle and not self._queue
            if waits:
                state.awaited = work
            else:
                work.future = state.loop.create_future()
            if not has_room:
                self._waiting.setdefault(client, deque()).append(work)
                return False, busy
            self._shares[client] = share + 1
            self._total += 1
            self._queue.append(work)
            if not busy and (waits or not idle):
                self._employ(1)
        if idle and not waits:
            self._collect_soon(state)
        return waits, busy or waits

    def _collect_soon(self, state: _LoopState) -> None:
        """Wait for the functions in the queue after all callbacks that the event loop has got."""
        if not state.collecting:
            state.collecting = True
            state.loop.call_soon(self._collect, state)

    def _collect(self, state: _LoopState) -> None:
        state.collecting = False
        progress = state.collect(self._employ_one)
        if self._queue and progress:
            self._collect_soon(state)
        elif self._queue and not state.watching:
            self._watch(state)

    def _employ_one(self) -> bool:
        """Wake or start a thread for the queue, unless one is busy. Return False if the queue is empty."""
        with self._lock:
            if self._queue and self._threads == len(self._parked):
                self._employ(1)
            return bool(self._queue)

    def _leave(self, work: _Work) -> None:
        """Remove a function from those that wait for room in the queue."""
        with self._lock, suppress(KeyError, ValueError):
            waiting = self._waiting[work.client]
            waiting.remove(work)
            if not waiting:
                del self._waiting[work.client]

    def _end(self, client: Hashable) -> None:
        """Let the next function of a client into the queue, now that one has ended."""
        with self._lock:
            if (waiting := self._waiting.get(client)) is not None:
                self._queue.append(waiting.popleft())
                if not waiting:
                    del self._waiting[client]
                return
            self._total -= 1
            self._shares[client] -= 1
            if not self._shares[client]:
                del self._shares[client]

    def _employ(self, count: int) -> None:
        """Wake or start this many threads; the lock is held."""
        for _ in range(count):
            if self._parked:
                self._parked.pop().release()
            elif self._threads < _MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._run_thread, name="mcp handler", daemon=True).start()

    def _watch(self, state: _LoopState) -> None:
        """Look soon whether the functions in the queue wait for others that block."""
        state.watching = True
        state.loop.call_later(_STALL_SECONDS, self._on_timer, state, self._started)

    def _on_timer(self, state: _LoopState, started: int) -> None:
        state.watching = False  # Before the queues are looked at: what ends later schedules a call.
        state.schedule()
        if self._queue:
            if self._started == started:
                with self._lock:
                    self._employ(len(self._queue))
            self._watch(state)

    def _run_thread(self) -> None:
        queue = self._queue
        signal: threading.Lock | None = None  # What an event loop waits for.
        while True:
            try:
                work = queue.popleft()
            except IndexError:
                if not self._wait(signal):
                    return
                signal = None
                continue
            if signal is not None:
                signal.release()
            self._started += 1
            _THREAD.loop = work.loop.loop
            work.run()
            self._end(work.client)
            signal = work.loop.add(work, more=bool(queue))
            del work  # An idle thread has no reference to the last request.

    def _wait(self, signal: threading.Lock | None) -> bool:
        """Wait for a function. Return False if the thread has to end. Release `signal` before the wait, so that the
        event loop that waits for it gets the interpreter at once."""
        _THREAD.loop = None
        with self._lock:
            empty = not self._queue
            parked = threading.Lock()
            if empty:
                parked.acquire()
                self._parked.append(parked)
        if signal is not None:
            signal.release()
        if not empty or parked.acquire(timeout=_IDLE_SECONDS):
            return True
        with self._lock:
            if parked not in self._parked:  # It was released meanwhile.
                return True
            self._parked.remove(parked)
            self._threads -= 1
            return False


def loop_of_worker() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that waits for the function of this worker thread; None in other threads."""
    return getattr(_THREAD, "loop", None)


WORKER_THREADS: Final = WorkerThreads()
