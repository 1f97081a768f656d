"""The callbacks of a client for the end of its connection and for other errors, and the log of its calls."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from pydantic import BaseModel

from mcp_runtime.errors import InvalidResponseError, JSONRPCError
from mcp_runtime.protocol.connection import Connection, Event, MessageRejected, NotificationReceived, RequestReceived
from mcp_runtime.protocol.jsonrpc import Id
from mcp_runtime.protocol.revision import Request
from mcp_runtime.session.instruments import Handle, OnClose, OnError
from mcp_runtime.session.interfaces import Channel, Reply, RequestTransport, Send, Transport, closed_error
from mcp_runtime.session.requests import OnProgress, Progress, RequestOptions
from mcp_runtime.session.session import Session

from .call_log import milliseconds, outcome_of, subject_of

_log: Final = logging.getLogger("mcp_runtime.client.calls")
_callbacks: Final = logging.getLogger("mcp_runtime.client.observer")


class ClientObserver:
    """Calls the callbacks of one client, and logs its connection.

    Attributes:
        is_closing: True while the client itself closes its connection.
        wrap: A function that makes async functions of the callbacks, which run in another event loop; None for none.
    """

    def __init__(self) -> None:
        """Create an observer without callbacks."""
        self.is_closing = False
        self.wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Awaitable[Any]]] | None = None
        self._on_close: list[OnClose] = []
        self._on_error: list[OnError] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._began = perf_counter()

    def add(self, on_close: OnClose | None, on_error: OnError | None) -> None:
        """Add callbacks."""
        if on_close is not None:
            self._on_close.append(on_close)
        if on_error is not None:
            self._on_error.append(on_error)

    def open_session(self, connection: Connection, transport: Transport | RequestTransport, handle: Handle) -> Session:
        """Return a session that logs its requests, and reports what it rejects."""
        return ObservedSession(self, connection, transport, handle)

    def connecting(self) -> None:
        """Note when the client begins to connect."""
        self.is_closing = False
        self._began = perf_counter()

    def connected(self, session: Session, server: Any, revision: str) -> None:
        """Call the callbacks when the session ends."""
        name = getattr(server, "name", None) or "a server without a name"
        _log.debug("connected to %s with %s in %s", name, revision, milliseconds(self._began))
        self._began = perf_counter()
        session.closed.add_done_callback(lambda _: self._closed(session, name))

    def _closed(self, session: Session, name: str) -> None:
        error = None if self.is_closing else closed_error(session.transport)
        _log.debug("disconnected from %s after %s: %s", name, milliseconds(self._began), error or "by this client")
        for callback in self._on_close:
            self._call(callback, error)

    def report(self, error: Exception) -> None:
        """Call the callbacks for an error that no call raises."""
        _log.debug("%s: %s", type(error).__name__, error)
        for callback in self._on_error:
            self._call(callback, error)

    def watching(self, handle: Handle) -> Handle:
        """Return a function that handles messages, and reports the exceptions of their handlers.

        A JSONRPCError is the answer to a request, and no failure.
        """

        async def watched(channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
            began = perf_counter()
            try:
                result = await handle(channel, message)
            except Exception as error:
                if not (isinstance(error, JSONRPCError) and isinstance(message, RequestReceived)):
                    self.report(error)
                raise
            if isinstance(message, RequestReceived):
                subject = subject_of(message.row.method, message.params)
                _log.debug("answered %s in %s", subject, milliseconds(began))
            return result

        return watched

    async def finish(self) -> None:
        """Wait for the callbacks that are coroutines; those of this task's own end are not waited for."""
        await asyncio.sleep(0)  # The callback of a future runs in the next iteration of the event loop.
        waiting = [task for task in self._tasks if task is not asyncio.current_task()]
        if waiting:
            await asyncio.wait(waiting)

    def _call(self, callback: Callable[[Any], Any], value: object) -> None:
        if self.wrap is not None:
            callback = self.wrap(callback)
        try:
            result = callback(value)
        except Exception:
            _callbacks.exception("a callback of a client failed")
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(_awaited(result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _awaited(result: Awaitable[None]) -> None:
    try:
        await result
    except Exception:
        _callbacks.exception("a callback of a client failed")


def _reporting(on_progress: OnProgress, report: Callable[[Exception], None]) -> OnProgress:
    """Return a progress callback that reports what this one raises."""

    async def call(progress: Progress) -> None:
        try:
            if inspect.isawaitable(result := on_progress(progress)):
                await result
        except Exception as error:
            report(error)
            raise

    return call


class ObservedSession(Session):
    """The session of a client with callbacks, or whose logger `mcp_runtime.client.calls` has the level DEBUG."""

    __slots__ = ("_observer",)

    def __init__(
        self, observer: ClientObserver, connection: Connection, transport: Transport | RequestTransport, handle: Handle
    ) -> None:
        """Create the session; the arguments after the first are those of Session."""
        super().__init__(connection, transport, handle)
        self._observer = observer

    def handle_event(self, event: Event, reply: Reply, channel: Channel) -> bool:
        """Handle an event, and report a message that is rejected."""
        if isinstance(event, MessageRejected) and not event.is_late:
            self._observer.report(InvalidResponseError(f"the server sent an invalid message: {event.reason}"))
        return super().handle_event(event, reply, channel)

    async def send_request(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
        send: Send | None = None,
        request_id: Id | None = None,
    ) -> BaseModel:
        """Send a request and return its result. Raises MCPError."""
        began, subject = perf_counter(), subject_of(row.method, params)
        _log.debug("%s begins", subject)
        if options.on_progress is not None:
            options = replace(options, on_progress=_reporting(options.on_progress, self._observer.report))
        try:
            result = await super().send_request(row, params, options, send, request_id)
        except asyncio.CancelledError as error:
            _log.debug("%s was cancelled after %s: %s", subject, milliseconds(began), error)
            raise
        except Exception as error:
            _log.debug("%s failed after %s: %s: %s", subject, milliseconds(began), type(error).__name__, error)
            raise
        _log.debug("%s has %s after %s", subject, outcome_of(result), milliseconds(began))
        return result
