"""The callbacks of a client for the end of its connection and for errors that no call raises."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...errors import ConnectionClosedError, JSONRPCError
from ...protocol.events import NotificationReceived, RequestReceived
from ...session.call_log import milliseconds, subject_of
from ...session.interfaces import Channel
from ...session.tracing import Handle

if TYPE_CHECKING:
    from ...session.session import Session

_log: Final = logging.getLogger(__name__)
_calls: Final = logging.getLogger("mcp_runtime.client.calls")

OnClose: TypeAlias = Callable[[ConnectionClosedError | None], Awaitable[None] | None]
OnError: TypeAlias = Callable[[Exception], Awaitable[None] | None]


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

    def connecting(self) -> None:
        """Note when the client begins to connect."""
        self.is_closing = False
        self._began = perf_counter()

    def connected(self, session: Session, server: Any, revision: str) -> None:
        """Call the callbacks when the session ends."""
        name = getattr(server, "name", None) or "a server without a name"
        _calls.debug("connected to %s with %s in %s", name, revision, milliseconds(self._began))
        self._began = perf_counter()
        session.closed.add_done_callback(lambda _: self._closed(session, name))

    def _closed(self, session: Session, name: str) -> None:
        error = None if self.is_closing else ConnectionClosedError(session.transport.close_reason)
        _calls.debug("disconnected from %s after %s: %s", name, milliseconds(self._began), error or "by this client")
        for callback in self._on_close:
            self._call(callback, error)

    def report(self, error: Exception) -> None:
        """Call the callbacks for an error that no call raises."""
        _calls.debug("%s: %s", type(error).__name__, error)
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
                _calls.debug("answered %s in %s", subject, milliseconds(began))
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
            _log.exception("a callback of a client failed")
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(_awaited(result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _awaited(result: Awaitable[None]) -> None:
    try:
        await result
    except Exception:
        _log.exception("a callback of a client failed")
