"""Worker threads for synchronous functions; they are daemon threads, so they never prevent the process from exiting.

A thread takes one function after the other from a queue, and an event loop takes all results that are there at once.
Functions that block get threads of their own within two milliseconds. The functions of one client have at most 32
threads, and at most a quarter of those that other clients leave, so that they do not stop the calls of other clients.

To be woken by another thread costs an event loop more than most functions take. So it waits for them: for one that is
alone at most 0.2 ms, for several while they end one after the other, at most 5 ms, not soon again if they took long.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final

from .reading_thread import READING, ReadingThread
from .worker_results import IdleThread, LoopState, ThreadedCall, new_idle_thread

_MAX_THREADS: Final = 256
_MAX_OF_CLIENT: Final = 32  # Functions of one client that run or are in the queue; further ones wait for these.
_IDLE_SECONDS: Final = 10.0  # Seconds after which a thread with nothing to do ends.
_STALL_SECONDS: Final = 0.001  # Seconds without progress after which other threads take what is in the queue.

_THREAD: Final = threading.local()

# Returns the client whose request runs a function; None if the process has one client.
CALLER: Final[ContextVar[Callable[[], Hashable] | None]] = ContextVar("mcp_caller", default=None)


class WorkerThreads:
    """Up to 256 daemon threads, which clients share: started on demand, and ended after 10 s without work."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin without threads. A forked process has none of those of its parent, and may have got a lock as held."""
        self._queue: deque[ThreadedCall] = deque()
        self._lock = threading.Lock()  # Held to add to the queue, and by a thread that has found it empty.
        self._shares: dict[Hashable, int] = {}  # How many functions of a client are in the queue, or run.
        self._total = 0  # Their sum.
        self._waiting: dict[Hashable, deque[ThreadedCall]] = (
            {}
        )  # The functions of clients that have no room in the queue.
        self._threads = 0
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
        work = ThreadedCall(function, arguments, state)
        is_quick = perf_counter() >= state.paused_until
        thread = self._idle_thread(work) if is_quick and state.is_first() else None
        if thread is None:
            watches = self._enqueue(work, is_quick)
        elif state.wait(work, thread, self._count):
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
        work = ThreadedCall(function, arguments, reading.state)
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

    def _idle_thread(self, work: ThreadedCall) -> IdleThread | None:
        """Take a thread for a function that is alone; None if others are in the queue, or run."""
        with self._lock:
            if self._queue or not self._parked or len(self._parked) != self._threads:
                return None
            thread = self._parked.pop()
        thread.work = work.loop.awaited = work
        return thread

    def _count(self, work: ThreadedCall) -> None:
        """Count a function that an event loop waits for no longer."""
        work.client = _client()
        work.is_counted = True
        with self._lock:
            self._shares[work.client] = self._shares.get(work.client, 0) + 1
            self._total += 1

    def _enqueue(self, work: ThreadedCall, is_quick: bool) -> bool:
        """Add a function to the queue. Return whether to watch the queue."""
        state, client = work.loop, _client()
        work.client = client
        work.is_counted = True
        work.future = state.loop.create_future()
        with self._lock:
            share = self._shares.get(client, 0)
            busy = self._threads > len(self._parked)
            if share and share >= min(_MAX_OF_CLIENT, (_MAX_THREADS - self._total) // 4):
                self._waiting.setdefault(client, deque()).append(work)
                return busy
            self._shares[client] = share + 1
            self._total += 1
            self._queue.append(work)
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
        if self._queue and progress:
            self._collect_soon(state)
        elif self._queue and not state.watching:
            self._watch(state)

    def _employ_one(self) -> bool:
        """Wake or start a thread for the queue, unless one is busy. Return False if the queue is empty."""
        with self._lock:
            count = int(bool(self._queue) and self._threads == len(self._parked))
            idle = self._employ(count)
            waits = bool(self._queue)
        _wake(idle)
        return waits

    def _leave(self, work: ThreadedCall) -> None:
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

    def _employ(self, count: int) -> list[IdleThread]:
        """Start threads for so many functions, and return those to wake after the lock, which is held, is released."""
        idle: list[IdleThread] = []
        for _ in range(count):
            if self._parked:
                idle.append(self._parked.pop())
            elif self._threads < _MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._run_thread, name="mcp handler", daemon=True).start()
        return idle

    def _watch(self, state: LoopState) -> None:
        """Look soon whether the functions in the queue wait for others that block."""
        state.watching = True
        state.loop.call_later(_STALL_SECONDS, self._on_timer, state, self._started)

    def _on_timer(self, state: LoopState, started: int) -> None:
        state.watching = False  # Before the queues are looked at: what ends later schedules a call.
        state.schedule()
        if self._queue:
            if self._started == started:
                with self._lock:
                    idle = self._employ(len(self._queue))
                _wake(idle)
            self._watch(state)

    def _run_thread(self) -> None:
        queue, thread = self._queue, new_idle_thread()
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
                        return thread.close()
                    signal = None
                    continue
            if signal is not None:
                signal.release()
            self._started += 1
            work.run()
            if is_counted := work.is_counted:
                self._end(work.client)
            signal = work.loop.add(work, more=bool(queue))
            if not is_counted and work.is_counted:  # The event loop has stopped waiting meanwhile.
                self._end(work.client)
            del work  # An idle thread has no reference to the last request.

    def _wait(self, thread: IdleThread, signal: threading.Lock | None) -> bool:
        """Wait for a function. Return False if the thread has to end. Release `signal` before the wait, so that the
        event loop that waits for it gets the interpreter at once."""
        with self._lock:
            empty = not self._queue
            if empty:
                self._parked.append(thread)
        if signal is not None:
            signal.release()
        if not empty or thread.wait(_IDLE_SECONDS):
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


def _client() -> Hashable:
    """Return the client whose request runs a function."""
    caller = CALLER.get()
    return None if caller is None else caller()


WORKER_THREADS: Final = WorkerThreads()

if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=WORKER_THREADS.reset)
