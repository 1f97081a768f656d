"""Worker threads for synchronous functions; they are daemon threads, so they never prevent the process from exiting.

The functions of one client have at most 32 threads, and at most a quarter of those that other clients leave, so that
they do not stop the calls of other clients.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar, cast

from .tasks import fast_paths

MAX_THREADS: Final = 256
_MAX_OF_CLIENT: Final = 32  # Functions of one client that run or are in the queue; further ones wait for these.
_IDLE_SECONDS: Final = 10.0  # Seconds after which a thread with nothing to do ends.

T = TypeVar("T")

# Returns the client whose request runs a function; None if the process has one client.
CALLER: Final[ContextVar[Callable[[], Hashable] | None]] = ContextVar("mcp_caller", default=None)

_WORKER: Final = threading.local()  # Its `call` is what a worker thread runs.


class ThreadedCall:
    """A function to run, and the future of its result, None while nobody awaits it. `client` is the client that the
    function is counted for; None if the process has one client."""

    __slots__ = (
        *("arguments", "client", "context", "error", "function", "future", "has_callbacks", "hurry", "loop", "result"),
    )

    def __init__(self, function: Callable[..., Any], arguments: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.arguments = arguments
        self.loop = loop
        self.client: Hashable = None
        self.future: asyncio.Future[Any] | None = None
        self.context = copy_context()
        self.result: Any = None
        self.error: BaseException | None = None
        # Called before the function waits for the event loop, which may wait for the function.
        self.hurry: Callable[[], None] | None = None
        self.has_callbacks = False  # True if it has given callbacks to the event loop, which come before its result.

    def run(self) -> None:
        """Run the function, unless the caller has been cancelled."""
        if self.future is not None and self.future.cancelled():
            return
        _WORKER.call = self
        try:
            self.result = self.context.run(self.function, *self.arguments)
        except BaseException as error:  # The task that waits for the result handles all exceptions.
            self.error = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        finally:
            _WORKER.call = None

    def settle(self) -> None:
        """Set the result of the future, in its event loop."""
        future = self.future
        if future is None or future.cancelled():
            return
        if self.error is None:
            future.set_result(self.result)
        else:
            future.set_exception(self.error)


class WorkerThreads:
    """Up to 256 daemon threads, which clients share: started on demand, and ended after 10 s without work."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin without threads. A forked process has none of those of its parent, and may have got a lock as held."""
        self._queue: SimpleQueue[ThreadedCall] = SimpleQueue()
        self._lock = threading.Lock()  # Held to change what follows.
        self._shares: dict[Hashable, int] = {}  # How many functions of a client are in the queue, or run.
        self._waiting: dict[Hashable, deque[ThreadedCall]] = {}  # Those of clients that have no room in the queue.
        self._total = 0  # Their sum.
        self._threads: int = 0  # As many as there are functions, up to the limit.

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread and return its result. Cancelling stops the waiting, and the function if it has
        not begun."""
        work = ThreadedCall(function, arguments, asyncio.get_running_loop())
        work.future = work.loop.create_future()
        work.client = calling_client()
        with self._lock:
            if self._admit(work) and self._threads < min(self._total, MAX_THREADS):
                self._start_thread()
        try:
            return await work.future
        except asyncio.CancelledError:
            self._leave(work)
            raise

    def _admit(self, work: ThreadedCall) -> bool:
        """Put a function into the queue; or let it wait, and return False, if its client has its share of threads. The
        lock is held."""
        share = self._shares.get(work.client, 0)
        if share and share >= min(_MAX_OF_CLIENT, (MAX_THREADS - self._total) // 4):
            self._waiting.setdefault(work.client, deque()).append(work)
            return False
        self._shares[work.client] = share + 1
        self._total += 1
        self._put(work)
        return True

    def _put(self, work: ThreadedCall) -> None:
        self._queue.put(work)

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._run_thread, name="mcp handler", daemon=True).start()

    def _run_thread(self) -> None:
        queue = self._queue
        while True:
            try:
                work = queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._threads > self._total:  # Else a function is on its way to this thread.
                        self._threads -= 1
                        return
                continue
            work.run()
            self._end(work.client)
            with suppress(RuntimeError):  # The event loop is closed.
                work.loop.call_soon_threadsafe(work.settle)
            del work  # An idle thread has no reference to the last request.

    def _end(self, client: Hashable) -> None:
        """Let the next function of a client into the queue, now that one has ended."""
        with self._lock:
            if (waiting := self._waiting.get(client)) is not None:
                self._put(waiting.popleft())
                if not waiting:
                    del self._waiting[client]
                return
            self._total -= 1
            self._shares[client] -= 1
            if not self._shares[client]:
                del self._shares[client]

    def _leave(self, work: ThreadedCall) -> None:
        """Remove a function from those that wait for room in the queue."""
        with self._lock, suppress(KeyError, ValueError):
            waiting = self._waiting[work.client]
            waiting.remove(work)
            if not waiting:
                del self._waiting[work.client]


def calling_client() -> Hashable:
    """Return the client whose request runs a function."""
    caller = CALLER.get()
    return None if caller is None else caller()


_PLAIN: Final = WorkerThreads()

if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_PLAIN.reset)


@cache
def worker_threads() -> WorkerThreads:
    """Return the worker threads of this process, which all servers share."""
    fast = fast_paths()
    return _PLAIN if fast is None else cast("WorkerThreads", fast.WORKER_THREADS)


def loop_of_worker() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that waits for the function of this worker thread; None in other threads."""
    call: ThreadedCall | None = getattr(_WORKER, "call", None)
    return None if call is None else call.loop


def call_soon_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: Any) -> None:
    """Call `callback` in an event loop: before the caller gets the result of the function that this worker thread runs.
    Raises RuntimeError if the loop is closed."""
    call: ThreadedCall | None = getattr(_WORKER, "call", None)
    if call is not None:
        call.has_callbacks = True
    loop.call_soon_threadsafe(callback, *arguments)


def run_in_loop(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop, and wait in this worker thread for its result."""
    future = asyncio.run_coroutine_threadsafe(coro, loop)
    call: ThreadedCall | None = getattr(_WORKER, "call", None)
    if call is not None and call.hurry is not None:
        call.hurry()
    return future.result()
