"""The server side of the stdio transport: this process serves one client on its standard input and output.

MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#stdio
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from types import FrameType
from typing import Any, Final, cast

from ...aio.tasks import fast_paths
from ...protocol.framing import DEFAULT_LIMIT, SizeLimit
from ...session.interfaces import Transport
from .lines import LineTransport, error_output, pipe_io, uses_threads

if sys.platform != "win32":
    from .pipes import PipeTransport, wait_for_close

# Opens the transport over standard input and output.
OpenPipes = Callable[[int, int, SizeLimit], LineTransport]

_log: Final = logging.getLogger(__name__)

_GRACE: Final = 1.5  # Seconds after a signal until the process exits even if handlers still run.
_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGBREAK")  # Windows has the last: Ctrl-Break, and a closed console.


def run_server(serve: Callable[[Transport], Awaitable[None]], limit: SizeLimit = DEFAULT_LIMIT) -> None:
    """Serve one connection over standard input and output until it ends, or until SIGINT or SIGTERM.

    Meanwhile all other output of the process and of its children, such as `print`, goes to standard error.
    """
    incoming, outgoing = _take_descriptors()
    loop, open_pipes = _new_event_loop(threaded=uses_threads(incoming, outgoing))
    signals = _SignalHandling(loop)
    try:
        loop.run_until_complete(signals.run_until_signal(_run_session(serve, incoming, outgoing, limit, open_pipes)))
    finally:
        signals.exit()


async def serve_in_loop(serve: Callable[[Transport], Awaitable[None]], limit: SizeLimit = DEFAULT_LIMIT) -> None:
    """Serve one connection over standard input and output in the running event loop, until it ends.

    Meanwhile all other output of the process and of its children, such as `print`, goes to standard error.
    """
    incoming, outgoing = _take_descriptors()
    await _run_session(serve, incoming, outgoing, limit, None)


def _new_event_loop(threaded: bool) -> tuple[asyncio.AbstractEventLoop, OpenPipes | None]:
    """Return an event loop, and what opens its transport, if a product has both."""
    fast = fast_paths()
    if sys.platform == "linux" and fast is not None and not threaded:
        return cast("tuple[asyncio.AbstractEventLoop, OpenPipes]", fast.new_event_loop())
    return asyncio.new_event_loop(), None


async def _run_session(
    serve: Callable[[Transport], Awaitable[None]],
    incoming: int,
    outgoing: int,
    limit: SizeLimit,
    open_pipes: OpenPipes | None,
) -> None:
    loop = asyncio.get_running_loop()
    if sys.platform != "win32" and not uses_threads(incoming, outgoing):
        transport = (open_pipes or PipeTransport)(incoming, outgoing, limit)

        def watch() -> None:
            wait_for_close(incoming)
            with contextlib.suppress(RuntimeError):  # The event loop is closed: the process is about to exit.
                loop.call_soon_threadsafe(transport.remote_closed)
            _exit_if_blocked(loop)

        threading.Thread(target=watch, name="mcp client watch", daemon=True).start()
        await serve(transport)
    else:
        await serve(pipe_io().open_stdio(incoming, outgoing, limit, at_end=lambda: _exit_if_blocked(loop)))


def _exit_if_blocked(loop: asyncio.AbstractEventLoop) -> None:
    """Exit the process if the event loop is blocked; the client has closed its end. Return when the loop is closed.

    A handler can block the event loop for ever by writing to a standard error that nobody reads any more.
    """
    with contextlib.suppress(RuntimeError):  # The event loop is closed: the process is about to exit.
        while True:
            responsive = threading.Event()
            loop.call_soon_threadsafe(responsive.set)
            if not responsive.wait(_GRACE):
                os._exit(1)
            time.sleep(_GRACE / 10)


def _take_descriptors() -> tuple[int, int]:
    """Return duplicates of standard input and output; redirect descriptor 0 to /dev/null and 1 to standard error."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    _use_bytes_and_utf8(incoming, outgoing)
    error_output().unblock_error_output()
    return incoming, outgoing


def _use_bytes_and_utf8(*descriptors: int) -> None:
    """On Windows, read and write bytes as they are, without CRLF and Ctrl-Z, and print UTF-8 whatever the code page."""
    if sys.platform == "win32":
        import msvcrt

        for descriptor in descriptors:
            msvcrt.setmode(descriptor, os.O_BINARY)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="replace")


class _SignalHandling:
    """End the process on SIGINT and SIGTERM, and soon after the connection has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._main: asyncio.Task[None] | None = None
        self._signal: int | None = None
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        for number in numbers:
            # A signal that arrives just before the event loop waits would not wake it otherwise; on Windows, the
            # Proactor loop takes care of that itself. The handler below replaces the one of the event loop.
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, _nothing)
        self._previous_handlers = {number: signal.signal(number, self._on_signal) for number in numbers}

    async def run_until_signal(self, coro: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, which a signal cancels. Raises what the coroutine raises."""
        self._main = asyncio.ensure_future(coro)
        await asyncio.wait([self._main])
        if not self._main.cancelled() and (error := self._main.exception()) is not None:
            raise error

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Cancel the main task. Python calls this in the main thread even while a handler blocks the event loop."""
        self._signal = number
        watchdog = threading.Timer(_GRACE, os._exit, [128 + number])
        watchdog.daemon = True
        watchdog.start()
        if self._main is not None:
            self._loop.call_soon_threadsafe(self._main.cancel)

    def exit(self) -> None:
        """Close the event loop; exit the process if handlers still run."""
        error_output().finish_error_output()
        for number, previous in self._previous_handlers.items():
            with contextlib.suppress(NotImplementedError):
                self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if self._signal is not None else previous)
        stuck = asyncio.all_tasks(self._loop)
        if self._signal is not None:
            sys.stderr.flush()
            if sys.platform == "win32":
                os._exit(128 + self._signal)  # os.kill would be no signal there.
            os.kill(os.getpid(), self._signal)
        if stuck:
            _log.warning("%d handlers did not end; the process exits without them", len(stuck))
            code = _exit_code(sys.exception())
            sys.stderr.flush()
            os._exit(code)
        self._loop.close()
        error_output().exit_without_threads()


def _nothing() -> None:
    """Do nothing in the event loop when a signal has arrived: the handler of the signal has done all."""


def _exit_code(error: BaseException | None) -> int:
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
