"""The server side of the stdio transport: this process serves one client on its standard input and output.

MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#stdio
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import FrameType
from typing import Any, Final

from ...aio import fast_paths
from ...aio.selector import ReaderRegistry, inline_selector
from ...session.interfaces import Transport
from .pipes import PipeTransport

_log: Final = logging.getLogger(__name__)

_GRACE: Final = 1.5  # Seconds after a signal until the process exits even if handlers still run.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_server(serve: Callable[[Transport], Awaitable[None]]) -> None:
    """Serve one connection over standard input and output until it ends, or until SIGINT or SIGTERM.

    Meanwhile all other output of the process and of its children, such as `print`, goes to standard error.
    """
    incoming, outgoing = _take_descriptors()
    if fast_paths.ENABLED:
        gc.freeze()  # Loaded modules live until the process exits: exclude them from garbage collection.
    readers = inline_selector()
    loop = asyncio.SelectorEventLoop(readers)
    signals = _SignalHandling(loop)
    try:
        loop.run_until_complete(signals.run_until_signal(_run_session(serve, incoming, outgoing, readers)))
    finally:
        signals.exit()


def open_stdio() -> Transport:
    """Open the transport of standard input and output in the running event loop, and redirect them as `run_server`."""
    incoming, outgoing = _take_descriptors()
    return PipeTransport(incoming, outgoing)


def _watch(loop: asyncio.AbstractEventLoop, incoming: int, remote_closed: Callable[[], None]) -> None:
    """Wait until the client closes its end; then exit the process if the event loop is blocked.

    A handler can block the event loop for ever by writing to a standard error that nobody reads any more.
    """
    client = select.poll()
    client.register(incoming, getattr(select, "POLLRDHUP", 0))
    client.poll()
    with contextlib.suppress(RuntimeError):  # The event loop is closed: the process is about to exit.
        loop.call_soon_threadsafe(remote_closed)
        while True:
            responsive = threading.Event()
            loop.call_soon_threadsafe(responsive.set)
            if not responsive.wait(_GRACE):
                os._exit(1)
            time.sleep(_GRACE / 10)


async def _run_session(
    serve: Callable[[Transport], Awaitable[None]], incoming: int, outgoing: int, readers: ReaderRegistry | None
) -> None:
    transport = PipeTransport(incoming, outgoing, readers=readers)
    arguments = (asyncio.get_running_loop(), incoming, transport.remote_closed)
    threading.Thread(target=_watch, args=arguments, name="mcp client watch", daemon=True).start()
    await serve(transport)


def _take_descriptors() -> tuple[int, int]:
    """Return duplicates of standard input and output; redirect descriptor 0 to /dev/null and 1 to standard error."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


class _SignalHandling:
    """End the process on SIGINT and SIGTERM, and soon after the connection has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._main: asyncio.Task[None] | None = None
        self._signal: int | None = None
        self._previous_handlers = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}

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
        for number, previous in self._previous_handlers.items():
            signal.signal(number, signal.SIG_DFL if self._signal is not None else previous)
        stuck = asyncio.all_tasks(self._loop)
        if self._signal is not None:
            sys.stderr.flush()
            os.kill(os.getpid(), self._signal)
        if stuck:
            _log.warning("%d handlers did not end; the process exits without them", len(stuck))
            sys.stderr.flush()
            os._exit(0)
        self._loop.close()
