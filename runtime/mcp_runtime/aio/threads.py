"""Worker threads for synchronous functions; they are daemon threads, so they never prevent the process from exiting.

A thread takes one function after the other from a queue, and an event loop takes all results that are there at once:
while there is work, a function costs no wake-up of a thread and less than one of the event loop. Functions that block
get threads of their own within two milliseconds. The functions of one client have at most 32 threads, and at most a
quarter of those that other clients leave, so that calls that block do not stop the calls of other clients.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

_MAX_THREADS: Final = 256
_MAX_OF_CLIENT: Final = 32  # Functions of one client that run or are in the queue; further ones wait for these.
_IDLE_SECONDS: Final = 10.0  # Seconds after which a thread with nothing to do ends.
_STALL_SECONDS: Final = 0.001  # Seconds without progress after which other threads take what is in the queue.
_BATCH: Final = 64  # Results for which the event loop is woken although more functions are in the queue.

_THREAD: Final = threading.local()

# Returns the client whose request runs a function; None if the process has one client.
CALLER: Final[ContextVar[Callable[[], Hashable] | None]] = ContextVar("mcp_caller", default=None)


class _Work:
    """A function to run, and the future of its result."""

    __slots__ = ("client", "context", "error", "function", "arguments", "future", "loop", "result")

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        future: asyncio.Future[Any],
        loop: _LoopState,
        client: Hashable,
    ) -> None:
        self.function, self.arguments, self.future, self.loop, self.client = function, arguments, future, loop, client
        self.context = contextvars.copy_context()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the function, unless the caller has been cancelled."""
        if self.future.cancelled():
            return
        try:
            self.result = self.context.run(self.function, *self.arguments)
        except BaseException as error:  # The task that waits for the result handles all exceptions.
            self.error = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error

    def settle(self) -> None:
        """Set the result of the future, in its event loop."""
        if self.future.cancelled():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _LoopState:
    """What has ended and waits for its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._ended: list[_Work] = []
        self._lock = threading.Lock()
        self.watching = False  # True while a timer of the event loop is going to look at the queues.

    def add(self, work: _Work, more: bool) -> None:
        """Add what has ended; `more` says that other functions follow, so that the event loop need not hear yet."""
        with self._lock:
            self._ended.append(work)
            count = len(self._ended)
        if not more or not self.watching or count >= _BATCH:
            self.schedule()

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
        future: asyncio.Future[Any] = loop.create_future()
        caller = CALLER.get()
        client = None if caller is None else caller()
        work = _Work(function, arguments, future, state, client)
        with self._lock:
            share = self._shares.get(client, 0)
            busy = self._threads > len(self._parked)
            if not share or share < min(_MAX_OF_CLIENT, (_MAX_THREADS - self._total) // 4):
                self._shares[client] = share + 1
                self._total += 1
                self._queue.append(work)
                if not busy:
                    self._employ(1)
            else:
                self._waiting.setdefault(client, deque()).append(work)
        if busy and not state.watching:
            self._watch(loop, state)
        try:
            return await future
        except asyncio.CancelledError:
            self._leave(work)
            raise

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
            if self._shares[client] == 1:
                del self._shares[client]
            else:
                self._shares[client] -= 1

    def _employ(self, count: int) -> None:
        """Wake or start this many threads; the lock is held."""
        for _ in range(count):
            if self._parked:
                self._parked.pop().release()
            elif self._threads < _MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._run_thread, name="mcp handler", daemon=True).start()

    def _watch(self, loop: asyncio.AbstractEventLoop, state: _LoopState) -> None:
        """Look soon whether the functions in the queue wait for others that block."""
        state.watching = True
        loop.call_later(_STALL_SECONDS, self._on_timer, loop, state, self._started)

    def _on_timer(self, loop: asyncio.AbstractEventLoop, state: _LoopState, started: int) -> None:
        state.watching = False  # Before the queues are looked at: what ends later schedules a call.
        state.schedule()
        if self._queue:
            if self._started == started:
                with self._lock:
                    self._employ(len(self._queue))
            self._watch(loop, state)

    def _run_thread(self) -> None:
        queue = self._queue
        while True:
            try:
                work = queue.popleft()
            except IndexError:
                if not self._wait():
                    return
                continue
            self._started += 1
            _THREAD.loop = work.loop.loop
            work.run()
            self._end(work.client)
            work.loop.add(work, more=bool(queue))
            del work  # An idle thread has no reference to the last request.

    def _wait(self) -> bool:
        """Wait for a function. Return False if the thread has to end."""
        _THREAD.loop = None
        with self._lock:
            if self._queue:
                return True
            parked = threading.Lock()
            parked.acquire()
            self._parked.append(parked)
        if parked.acquire(timeout=_IDLE_SECONDS):
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
