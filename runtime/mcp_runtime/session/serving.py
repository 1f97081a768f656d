"""Serve one connection over a transport."""

# pyright: reportPrivateUsage=false
# What threads read is a part of a session that few sessions need.

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ..aio.eager import adopted_task
from ..aio.workers.handover import IDLE_SECONDS, Handover
from ..protocol import jsonrpc
from ..protocol.events import RequestReceived
from ..protocol.framing import OversizedMessage
from ..protocol.large.pieces import LARGE
from .current_request import FORWARDING
from .identity import RequestAuth
from .interfaces import Candidate, Dispatcher, Service, Transport
from .negotiation import reject_message, select_service
from .running import RunningRequest
from .served_versions import ServedVersions
from .session import Session
from .tracing import OPENTELEMETRY

if TYPE_CHECKING:
    from ..aio.workers.reading_thread import ReadingThread

_CALLS: Final = 8  # Calls in a row after which a thread reads the next one.

# Returns True if a request, the name of whose handler and params it gets, runs code of users in a worker thread only.
RunsInThread = Callable[[str, Any], bool]


async def serve(
    candidates: Sequence[Candidate[Service]],
    transport: Transport,
    auth: RequestAuth | None = None,
    scope: Mapping[str, Any] | None = None,
) -> None:
    """Serve one connection with the candidate of the version that the client names; then close the transport.

    Args:
        candidates: The services of all protocol versions that the client may negotiate.
        transport: The open transport of the connection.
        auth: The authentication of the connection; None without one.
        scope: The ASGI scope of the HTTP request that opened the connection; None over stdio and in memory.
    """
    try:
        while (first := await transport.receive()) is not None:
            service = select_service(candidates, first)
            if service is not None:
                await _serve_session(candidates, service, transport, auth, scope, first)
                return
            reject_message(candidates, transport, first)
            await transport.drain()
    finally:
        await transport.close()


def session_class(dispatcher: Dispatcher) -> type[Session]:
    """Return the class of the sessions of a dispatcher: its own `session_class`, or `Session`."""
    return getattr(dispatcher, "session_class", Session)


def handler_of(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Return what handles the messages of a session: the dispatcher itself if it can be called, which saves the memory
    of a bound method for each session."""
    return dispatcher if callable(dispatcher) else dispatcher.handle


async def _serve_session(
    candidates: Sequence[Candidate[Service]],
    service: Service,
    transport: Transport,
    auth: RequestAuth | None,
    scope: Mapping[str, Any] | None,
    first: bytes,
) -> None:
    def make_session(service: Service, state: Any) -> tuple[Session, Dispatcher]:
        dispatcher = service.dispatcher(state)
        connection = service.connection()
        dispatcher.stamp_server_info(connection)
        make = session_class(dispatcher)
        session = make(connection, transport, dispatcher.handle, dispatcher.initialize, auth=auth, scope=scope)
        dispatcher.attach(session)
        return session, dispatcher

    async with service.lifespan() as state:
        session, dispatcher = make_session(service, state)
        versions = ServedVersions(candidates, service, state, make_session)
        if len(candidates) > 1 and any(not candidate.stateful for candidate in candidates):
            versions.attach(session)
        runs_in_thread: RunsInThread | None = getattr(service, "runs_in_thread", None)
        if runs_in_thread is not None and type(session) is Session and isinstance(transport, ThreadTransport):
            session.note_request = CallsInThreads(session, runs_in_thread, transport).note
        session.closed.add_done_callback(lambda _: dispatcher.detach())
        try:
            await session.run(first)
        finally:
            dispatcher.detach()
            await versions.end()
            await dispatcher.background_tasks.end()


@runtime_checkable
class ThreadTransport(Protocol):
    """A transport that lets a thread read in the place of the event loop; `receive` handles what it has read."""

    def read_in_thread(self, receive: Callable[[ReadingThread, bytes], Handover | None]) -> None: ...


class CallsInThreads:
    """The calls of a session that a thread may answer, while they come one after the other."""

    def __init__(self, session: Session, runs_in_thread: RunsInThread, transport: ThreadTransport) -> None:
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
        is_quick = has_ended and self._last - before < IDLE_SECONDS
        self._count = self._count + 1 if is_quick and self._applies_to(request) else 0
        if self._count >= _CALLS:
            self._transport.read_in_thread(partial(self._receive, copy_context()))

    def _applies_to(self, request: RequestReceived) -> bool:
        if FORWARDING.is_on or OPENTELEMETRY in sys.modules:  # Logs and spans belong to the task of their request.
            return False
        return self._runs_in_thread(request.row.name, request.params)

    def _receive(self, context: Context, thread: ReadingThread, data: bytes) -> Handover | None:
        """Handle a message in a thread; return what the event loop has to do, None if the thread may read the next."""
        session = self._session
        if session.running or session._large or len(data) > LARGE or type(data) is OversizedMessage:
            return partial(session._receive_bytes, data)
        request = session.connection.receive_message(jsonrpc.decode(data))
        if not isinstance(request, RequestReceived) or not self._applies_to(request):
            return partial(session.handle_event, request, session._send, session)
        coro, context = session._run_request_handler(request, session._send, session), context.copy()
        return thread.run(coro, context, partial(self._adopt, request, coro, context))

    def _adopt(self, request: RequestReceived, coro: Coroutine[Any, Any, None], context: Context, until: Any) -> None:
        """Let the handler of a request, which a thread has begun, go on as a task."""
        session = self._session
        task = adopted_task(session._handlers.loop, coro, context, until)
        session._handlers = session._handlers.add(task)
        session.running = session.running or {}
        session.running[request.id] = RunningRequest(request, session._send, task)
