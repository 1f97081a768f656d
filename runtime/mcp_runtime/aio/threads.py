"""Plain functions go in and run in worker threads that never keep the process alive; their results are awaited."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

_MAX_THREADS: Final = 32
_IDLE_SECONDS: Final = 10.0  # Seconds after which a thread with nothing to do ends.

_Work = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class WorkerThreads:
    """Up to 32 daemon threads, started when they are needed and ended when they are not."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._queued = 0  # Also what an idle thread was not yet quick enough to take.

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result. Cancelling does not stop the function, only the waiting for it."""
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
            try:
                outcome, fault = function(), None
            except BaseException as raised:  # Whatever it is, it belongs to who waits.
                outcome, fault = None, raised
            _deliver(loop, future, outcome, fault)

    def _next(self) -> _Work | None:
        """What a thread is to do next; None where it has to end."""
        with self._lock:
            self._idle += 1
        try:
            work = self._queue.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            work = None
        with self._lock:
            self._idle -= 1
            if work is None and self._queued > self._idle:
                work = self._queue.get_nowait()  # It came when this thread was about to end.
            if work is None:
                self._threads -= 1
            else:
                self._queued -= 1
        return work


def _deliver(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Any, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


WORKER_THREADS: Final = WorkerThreads()
