"""Worker threads for synchronous functions; they are daemon threads, so they never prevent the process from exiting."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

_MAX_THREADS: Final = 32
_IDLE_SECONDS: Final = 10.0  # Seconds after which a thread with nothing to do ends.

_THREAD: Final = threading.local()

_Work = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class WorkerThreads:
    """Up to 32 daemon threads, which are started on demand and end after 10 s without work."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._queued = 0  # Functions in the queue, including those that an idle thread is about to take.

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread and return its result. Cancelling stops the waiting, but not the function."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        with self._lock:
            self._queue.put((lambda: context.run(function, *arguments), future, loop))
            self._queued += 1
            if self._queued > self._idle and self._threads < _MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._run_thread, name="mcp handler", daemon=True).start()
        return await future

    def _run_thread(self) -> None:
        while (work := self._next()) is not None:
            function, future, loop = work
            _THREAD.loop = loop
            try:
                result, error = function(), None
            except BaseException as raised:  # The task that waits for the result handles all exceptions.
                result, error = None, raised
            _set_result(loop, future, result, error)
            _THREAD.loop = None
            del work, function, future, loop, result, error  # An idle thread has no references to the last request.

    def _next(self) -> _Work | None:
        """Return the next function to run, or None to end the thread."""
        with self._lock:
            self._idle += 1
        try:
            work = self._queue.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            work = None
        with self._lock:
            self._idle -= 1
            if work is None and self._queued > self._idle:
                work = self._queue.get_nowait()  # Queued while this thread was about to end.
            if work is None:
                self._threads -= 1
            else:
                self._queued -= 1
        return work


def _set_result(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


def loop_of_worker() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that waits for the function of this worker thread; None in other threads."""
    return getattr(_THREAD, "loop", None)


WORKER_THREADS: Final = WorkerThreads()
