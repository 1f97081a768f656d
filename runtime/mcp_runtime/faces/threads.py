"""Plain functions go in and run in worker threads that never keep the process alive; their results are awaited."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

_MOST: Final = 32
_IDLE: Final = 10.0  # Seconds after which a thread with nothing to do ends.

_Work = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


class Workers:
    """Up to 32 daemon threads, started when they are needed and ended when they are not."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The function's result. Cancelling does not stop the function, only the waiting for it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        self._queue.put((lambda: context.run(function, *arguments), future, loop))
        with self._lock:
            if self._idle == 0 and self._threads < _MOST:
                self._threads += 1
                threading.Thread(target=self._work, name="mcp handler", daemon=True).start()
        return await future

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                function, future, loop = self._queue.get(timeout=_IDLE)
            except queue.Empty:
                with self._lock:
                    self._idle -= 1
                    self._threads -= 1
                return
            with self._lock:
                self._idle -= 1
            try:
                outcome, fault = function(), None
            except BaseException as raised:  # Whatever it is, it belongs to who waits.
                outcome, fault = None, raised
            _deliver(loop, future, outcome, fault)


def _deliver(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Any, fault: BaseException | None
) -> None:
    def settle() -> None:
        if future.cancelled():
            return
        if fault is None:
            future.set_result(outcome)
        else:
            future.set_exception(RuntimeError(repr(fault)) if isinstance(fault, StopIteration) else fault)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


WORKERS: Final = Workers()
