"""The end of a process whose handlers still run: in threads that Python would wait for, or in a blocked event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any, Final

_ITERATIONS: Final = 20  # Iterations of the event loop in which a response passes all tasks up to the socket.
_GRACE: Final = 0.3  # Seconds for threads to end when the main thread has.


def exit_without_threads() -> None:
    """Let the process exit soon after its main thread, although threads of handlers still run.

    Python waits for all threads that are not daemons, such as those of `asyncio.to_thread`. The process ends with the
    exit code 0, or 1 after an exception that nothing has caught.
    """
    waited_for = [thread for thread in threading.enumerate() if not thread.daemon]
    register: Any = getattr(threading, "_register_atexit", None)
    if len(waited_for) < 2 or register is None:  # The main thread is one of them.
        return
    main_has_ended = threading.Event()

    def watch() -> None:
        main_has_ended.wait()
        time.sleep(_GRACE)
        os._exit(1 if getattr(sys, "last_value", None) is not None else 0)

    threading.Thread(target=watch, name="mcp exit", daemon=True).start()
    with suppress(RuntimeError):  # Python ends already.
        register(main_has_ended.set)


def end_process(error: BaseException) -> None:
    """Raise in the event loop what ends the process, when a response that was written before has been sent."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # A thread runs the handler: it passes the exception on.
        raise error from None
    _end_after(loop, _ITERATIONS, error)


def _end_after(loop: asyncio.AbstractEventLoop, iterations: int, error: BaseException) -> None:
    if not iterations:
        raise error
    loop.call_soon(_end_after, loop, iterations - 1, error)


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of a process that ends with an exception, None for none, and print it as Python does."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is not None and not isinstance(error.code, int):
        print(error.code, file=sys.stderr)
        return 1
    return error.code or 0


class ExitTimer:
    """A timer that ends the process, whatever its event loop and its threads do."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self, seconds: float, code: int) -> None:
        """End the process after this many seconds with this exit code; the first call counts."""
        if self._timer is None:
            self._timer = threading.Timer(seconds, os._exit, [code])
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        """Do not end the process."""
        if self._timer is not None:
            self._timer.cancel()
