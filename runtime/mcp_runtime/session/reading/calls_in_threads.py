"""Calls that run code of users in worker threads only: such a thread may read and answer them by itself."""

# pyright: reportPrivateUsage=false
# It is a part of the session that few sessions need.

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol, runtime_checkable

from ...aio.eager import adopted_task
from ...aio.reading.thread import IDLE_SECONDS, Handover, ReadingThread
from ...protocol import jsonrpc
from ...protocol.events import RequestReceived
from ...protocol.framing import OversizedMessage
from ...protocol.large.pieces import LARGE
from ..running import RunningRequest
from ..session import Session

_CALLS: Final = 8  # Calls in a row after which a thread reads the next one.


@runtime_checkable
class ThreadTransport(Protocol):
    """A transport that lets a thread read in the place of the event loop; `receive` handles what it has read."""

    def read_in_thread(self, receive: Callable[[ReadingThread, bytes], Handover | None]) -> None: ...


@runtime_checkable
class ThreadDispatcher(Protocol):
    """A dispatcher that knows whether a request runs code of users in worker threads only."""

    def runs_in_thread(self, request: RequestReceived) -> bool: ...


class CallsInThreads:
    """The calls of a session that a thread may answer, while they come one after the other."""

    def __init__(self, session: Session, dispatcher: ThreadDispatcher, transport: ThreadTransport) -> None:
        """Begin with a session in which no call was made."""
        self._session, self._dispatcher, self._transport = session, dispatcher, transport
        self._count, self._last = 0, 0.0

    def note(self, request: RequestReceived, has_ended: bool) -> None:
        """Note a request that the event loop has begun, and whether it has ended; perhaps let a thread read the next."""
        before, self._last = self._last, perf_counter()
        is_quick = has_ended and self._last - before < IDLE_SECONDS
        self._count = self._count + 1 if is_quick and self._dispatcher.runs_in_thread(request) else 0
        if self._count >= _CALLS:
            self._transport.read_in_thread(partial(self._receive, copy_context()))

    def _receive(self, context: Context, thread: ReadingThread, data: bytes) -> Handover | None:
        """Handle a message in a thread; return what the event loop has to do, None if the thread may read the next."""
        session = self._session
        if session.running or len(data) > LARGE or type(data) is OversizedMessage:
            return partial(session._receive_bytes, data)
        request = session.connection.receive_message(jsonrpc.decode(data))
        if not isinstance(request, RequestReceived) or not self._dispatcher.runs_in_thread(request):
            return partial(session.handle_event, request, session._send, session)
        coro, context = session._run_request_handler(request, session._send, session), context.copy()
        return thread.run(coro, context, partial(self._adopt, request, coro, context))

    def _adopt(self, request: RequestReceived, coro: Coroutine[Any, Any, None], context: Context, until: Any) -> None:
        """Let the handler of a request, which a thread has begun, go on as a task."""
        session = self._session
        task = adopted_task(session._loop, coro, context, until)
        session._handlers.add(task)
        session.running[request.id] = RunningRequest(request, session._send, task)
