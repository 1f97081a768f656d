"""This process as a server on its standard input and output, from the first byte to the exit of the process."""

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

_GRACE: Final = 1.5  # Seconds after which a process that was told to end does so, whatever its handlers do.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_server(serve: Callable[[Transport], Awaitable[None]]) -> None:
    """Serve one conversation over standard input and output, until its end, SIGINT or SIGTERM.

    Meanwhile nothing else in the process reaches standard output: what is printed, also by children that inherit
    the descriptors, goes to standard error.
    """
    incoming, outgoing = _take_descriptors()
    if fast_paths.ENABLED:
        gc.freeze()  # What is loaded stays until the end: no collection has to look at it again.
    readers = inline_selector()
    loop = asyncio.SelectorEventLoop(readers)
    ending = _SignalHandling(loop)
    try:
        loop.run_until_complete(ending.run_until_signal(_run_session(serve, incoming, outgoing, readers)))
    finally:
        ending.exit()


def _watch(loop: asyncio.AbstractEventLoop, incoming: int, remote_closed: Callable[[], None]) -> None:
    """Wait for the client to go away. From then on the loop has to turn: where a handler blocks it, such as by writing
    to a standard error that nobody reads any more, nothing else would end the process."""
    client = select.poll()
    client.register(incoming, getattr(select, "POLLRDHUP", 0))
    client.poll()
    with contextlib.suppress(RuntimeError):  # The loop is closed: all is well.
        loop.call_soon_threadsafe(remote_closed)
        while True:
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            if not turned.wait(_GRACE):
                os._exit(1)
            time.sleep(_GRACE / 10)


async def _run_session(
    serve: Callable[[Transport], Awaitable[None]], incoming: int, outgoing: int, readers: ReaderRegistry | None
) -> None:
    transport = PipeTransport(incoming, outgoing, readers=readers)
    watched = (asyncio.get_running_loop(), incoming, transport.remote_closed)
    threading.Thread(target=_watch, args=watched, name="mcp client watch", daemon=True).start()
    await serve(transport)


def _take_descriptors() -> tuple[int, int]:
    """Standard input and output under new numbers; their old ones lead to nothing and to standard error."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


class _SignalHandling:
    """How the process ends: by itself, or told by a signal, and in both cases soon."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._main: asyncio.Task[None] | None = None
        self._signal: int | None = None
        self._previous_handlers = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}

    async def run_until_signal(self, coro: Coroutine[Any, Any, None]) -> None:
        self._main = asyncio.ensure_future(coro)
        await asyncio.wait([self._main])
        if not self._main.cancelled() and (fault := self._main.exception()) is not None:
            raise fault

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Runs between two instructions of the main thread, even while a handler keeps the loop from running."""
        self._signal = number
        watchdog = threading.Timer(_GRACE, os._exit, [128 + number])
        watchdog.daemon = True
        watchdog.start()
        if self._main is not None:
            self._loop.call_soon_threadsafe(self._main.cancel)

    def exit(self) -> None:
        """Close the loop; where handlers do not end, end the process without them."""
        for number, before in self._previous_handlers.items():
            signal.signal(number, signal.SIG_DFL if self._signal is not None else before)
        stuck = asyncio.all_tasks(self._loop)
        if self._signal is not None:
            sys.stderr.flush()
            os.kill(os.getpid(), self._signal)
        if stuck:
            _log.warning("%d handlers did not end and are left behind", len(stuck))
            sys.stderr.flush()
            os._exit(0)
        self._loop.close()
