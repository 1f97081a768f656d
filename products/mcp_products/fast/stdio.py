"""Stdio on Linux: a selector that runs callbacks of readable descriptors itself, and a thread that reads in the place
of the event loop while calls come one after the other."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import selectors
import sys
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from time import monotonic, perf_counter
from typing import Final

from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.connection import RequestReceived
from mcp_runtime.protocol.framing import DEFAULT_LIMIT, LARGE, OversizedMessage, SizeLimit
from mcp_runtime.session.instruments import OPENTELEMETRY
from mcp_runtime.session.interfaces import FORWARDING, Service
from mcp_runtime.session.serving import RunsInThread
from mcp_runtime.session.session import Session

from .switches import BUSY_POLL
from .worker_threads import IDLE_SECONDS, WORKER_THREADS, Handover, ReadingThread, Serve, nothing

if sys.platform == "linux":
    from mcp_runtime.transports.stdio.pipes import CHUNK, PipeTransport

assert sys.platform == "linux"  # Other systems use the selector of asyncio.

_log: Final = logging.getLogger("mcp_runtime.fast.stdio")

_SPIN_SECONDS: Final = 50e-6  # Seconds to poll for the next message before sleeping, if the last one came that soon.
CALLS: Final = 8  # Calls in a row after which a thread reads the next one.
QUICK_SECONDS: Final = IDLE_SECONDS  # From one call to the end of the next one.

# Handles a message in a thread that reads; the result is that of `Serve`.
ReceiveInThread = Callable[[ReadingThread, bytes], Handover | None]


def new_event_loop() -> tuple[asyncio.AbstractEventLoop, Callable[[int, int, SizeLimit], PipeTransport]]:
    """Return an event loop, and what opens its transport."""
    selector = InlineSelector(BUSY_POLL)
    return asyncio.SelectorEventLoop(selector), partial(ReadingPipes, selector)


class InlineSelector(selectors.DefaultSelector):
    """The selector of an event loop, which runs the callbacks of readable descriptors itself.

    The event loop would queue a callback and run it in its next iteration, which takes up to a tenth of the time of a
    sequential call.
    """

    def __init__(self, busy_poll: bool = True) -> None:
        super().__init__()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._ready = select.poll()  # Watches the descriptors with a callback, and the selector for all others.
        self._ready.register(self.fileno(), select.POLLIN)
        self._busy_poll = busy_poll
        self._was_quick = False
        self._serve: Serve | None = None  # What a thread does in the place of the event loop, from the next wait on.
        self._thread: ReadingThread | None = None

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> None:
        """Call back each time the descriptor is readable; a regular file always is."""
        self._callbacks[fd] = callback
        self._ready.register(fd, select.POLLIN)

    def remove_reader(self, fd: int, /) -> None:
        """Stop calling back for a descriptor."""
        self._ready.unregister(fd)
        del self._callbacks[fd]

    def read_in_thread(self, serve: Serve) -> None:
        """Let a thread serve messages in the place of the event loop, when that waits next."""
        self._serve = serve

    def wait_for(self, fd: int, seconds: float) -> bool:
        """Wait, in such a thread, until one of the descriptors is readable. Return True if only `fd` is."""
        return [ready for ready, _ in self._wait(seconds)] == [fd]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Run the callbacks of readable descriptors, and return the other events for the event loop."""
        if self._serve is not None and (timeout is None or timeout > IDLE_SECONDS):
            serve = self._serve
            self._serve = None
            while self._thread is None or not self._thread.lend(serve, timeout):
                self._thread = WORKER_THREADS.reading_thread()
            timeout = 0
        others = False
        for fd, _ in self._wait(timeout):
            callback = self._callbacks.get(fd)
            if callback is None:
                others = True
                continue
            try:
                callback()
            except Exception:
                _log.exception("a reader callback failed")
        return super().select(0) if others else []

    def _wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Return the ready descriptors, after `timeout` seconds at the latest.

        Going to sleep and waking up takes longer than most calls, so busy polling saves latency and processor time if
        the peer sends its next message at once. `sched_yield` lets other processes run first.
        """
        if timeout is not None and timeout <= 0:
            return self._ready.poll(0)
        began = monotonic()
        while self._was_quick and self._busy_poll and monotonic() - began < _SPIN_SECONDS:
            if events := self._ready.poll(0):
                return events
            os.sched_yield()
        events = self._ready.poll(None if timeout is None else timeout * 1000)
        self._was_quick = monotonic() - began < _SPIN_SECONDS
        return events


class ReadingPipes(PipeTransport):
    """A transport whose messages a thread may read in the place of the event loop."""

    def __init__(
        self, selector: InlineSelector, incoming: int, outgoing: int, limit: SizeLimit = DEFAULT_LIMIT
    ) -> None:
        super().__init__(incoming, outgoing, limit, selector)
        self._selector = selector

    def watch(self, session: Session, service: Service) -> None:
        """Let a thread answer the calls of a session, if functions of the service need nothing but a thread."""
        runs_in_thread: RunsInThread | None = getattr(service, "runs_in_thread", None)
        if runs_in_thread is not None and type(session) is Session:
            session.note_request = CallsInThreads(session, runs_in_thread, self).note

    def read_in_thread(self, receive: ReceiveInThread) -> None:
        """Let a thread read the next messages in the place of the event loop, if that can be done."""
        if self._reading:
            self._selector.read_in_thread(partial(self._serve_in_thread, receive))

    def _serve_in_thread(self, receive: ReceiveInThread, thread: ReadingThread, seconds: float) -> Handover | None:
        if not self._selector.wait_for(self._incoming, seconds):
            return nothing
        try:
            data = os.read(self._incoming, CHUNK)
        except OSError:
            data = b""
        if not data:
            return self._end
        messages = self._lines.feed(data)
        if len(messages) != 1:
            self._ready.extend(messages)
            return self.resume
        handover = receive(thread, messages[0])
        is_free = self._reading and not (self._unsent or self._ended)
        return nothing if handover is None and not is_free else handover


class CallsInThreads:
    """The calls of a session that a thread may answer, while they come one after the other."""

    def __init__(self, session: Session, runs_in_thread: RunsInThread, transport: ReadingPipes) -> None:
        """Begin with a session in which no call was made."""
        self._session = session
        self._runs_in_thread = runs_in_thread
        self._transport = transport
        self._count = 0
        self._last = 0.0

    def note(self, request: RequestReceived, has_ended: bool) -> None:
        """Note a request that the event loop has begun, and whether it has ended. A thread may read the next one."""
        before = self._last
        self._last = perf_counter()
        is_quick = has_ended and self._last - before < QUICK_SECONDS
        self._count = self._count + 1 if is_quick and self._applies_to(request) else 0
        if self._count >= CALLS:
            self._transport.read_in_thread(partial(self._receive, copy_context()))

    def _applies_to(self, request: RequestReceived) -> bool:
        if FORWARDING.is_on or OPENTELEMETRY in sys.modules:  # Logs and spans belong to the task of their request.
            return False
        return self._runs_in_thread(request.row.name, request.params)

    def _receive(self, context: Context, thread: ReadingThread, data: bytes) -> Handover | None:
        """Handle a message in a thread; return what the event loop has to do, None if the thread may read the next."""
        session = self._session
        if session.has_work() or len(data) > LARGE or type(data) is OversizedMessage:
            return partial(session.receive_bytes, data)
        request = session.connection.receive_message(jsonrpc.decode(data))
        if not isinstance(request, RequestReceived) or not self._applies_to(request):
            return partial(session.receive_event, request)
        coro, context = session.answering(request), context.copy()
        return thread.run(coro, context, partial(session.adopt, request, coro, context))
