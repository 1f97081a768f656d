"""The seam of traces, metrics and logs: what watches the messages of this process, and the connections of a client."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from .. import products
from ..errors import ConnectionClosedError
from ..protocol.connection import Connection, NotificationReceived, RequestReceived
from ..protocol.lenient import LeftOut
from ..protocol.revision import InputRequest, Request, Revision, Sent
from .interfaces import Channel, Dispatcher, RequestTransport, Transport

if TYPE_CHECKING:
    from .session import Session

_log: Final = logging.getLogger("mcp_runtime.session.left_out")

OPENTELEMETRY: Final = "opentelemetry"  # Nothing is traced or measured unless the application has imported it.
_PRODUCT: Final = "telemetry"
_MAX_NAMED: Final = 10  # Parts of one message that the log names.

Handle: TypeAlias = Callable[[Channel, RequestReceived | NotificationReceived], Awaitable[Any]]
SendRequest: TypeAlias = Callable[[], Awaitable[Any]]
OnClose: TypeAlias = Callable[[ConnectionClosedError | None], Awaitable[None] | None]
OnError: TypeAlias = Callable[[Exception], Awaitable[None] | None]


class Instruments(Protocol):
    """What watches the messages of a process."""

    def is_traced(self, message: RequestReceived | NotificationReceived) -> bool:
        """Return True if a message gets a span, or names the trace that it is part of."""
        ...

    async def handle_in_trace(
        self, handle: Handle, channel: Channel, message: RequestReceived | NotificationReceived
    ) -> Any:
        """Handle a message with the trace of its `_meta` as the current one, and in a span of its own."""
        ...

    def trace_meta(self) -> dict[str, str]:
        """Return the current trace and baggage as keys of `_meta`; empty without a trace."""
        ...

    def around_request(self, row: Request[Any], params: Any, channel: Channel, send: SendRequest) -> SendRequest:
        """Return a function that sends a request as `send` does, and watches it."""
        ...

    def around_dispatch(self, dispatcher: Dispatcher, has_sessions: bool) -> Dispatcher:
        """Return the dispatcher of a connection, or one around it that watches it; `has_sessions` is False where
        sessions go on in other processes."""
        ...

    def endpoint_opened(self, endpoint: object, handlers: Sequence[Any], streams: Any) -> None:
        """Count the sessions, streams and requests of an HTTP endpoint."""

    def endpoint_closed(self, endpoint: object) -> None:
        """Count those of an HTTP endpoint no more."""

    def counted(self, what: str, attributes: Mapping[str, str], count: int = 1) -> None:
        """Count what happens: "left_out", parts of messages that could not be read; "refused", requests above a limit;
        "resumed", streams that a client goes on with."""


class NoInstruments:
    """Watches nothing."""

    def is_traced(self, message: RequestReceived | NotificationReceived) -> bool:
        """Return False."""
        return False

    async def handle_in_trace(
        self, handle: Handle, channel: Channel, message: RequestReceived | NotificationReceived
    ) -> Any:
        """Handle a message."""
        return await handle(channel, message)

    def trace_meta(self) -> dict[str, str]:
        """Return no trace."""
        return {}

    def around_request(self, row: Request[Any], params: Any, channel: Channel, send: SendRequest) -> SendRequest:
        """Return the function itself."""
        return send

    def around_dispatch(self, dispatcher: Dispatcher, has_sessions: bool) -> Dispatcher:
        """Return the dispatcher itself."""
        return dispatcher

    def endpoint_opened(self, endpoint: object, handlers: Sequence[Any], streams: Any) -> None:
        """Do nothing."""

    def endpoint_closed(self, endpoint: object) -> None:
        """Do nothing."""

    def counted(self, what: str, attributes: Mapping[str, str], count: int = 1) -> None:
        """Do nothing."""


_NOTHING: Final = NoInstruments()


def instruments(calls: logging.Logger | None = None) -> Instruments:
    """Return what watches the messages of this process: nothing, unless OpenTelemetry is imported, or the logger of
    calls has the level DEBUG."""
    if OPENTELEMETRY in sys.modules or (calls is not None and calls.isEnabledFor(logging.DEBUG)):
        return _telemetry() or _NOTHING
    return _NOTHING


def _telemetry() -> Instruments | None:
    return cast("Instruments | None", products.find(_PRODUCT))


def with_trace_context(handle: Handle) -> Handle:
    """Return a function that handles each message with the trace of its `_meta` as the current one."""

    def handle_with_context(channel: Channel, message: RequestReceived | NotificationReceived) -> Awaitable[Any]:
        if OPENTELEMETRY in sys.modules and (watching := instruments()).is_traced(message):
            return watching.handle_in_trace(handle, channel, message)
        return handle(channel, message)

    return handle_with_context


class ClientObserver(Protocol):
    """Calls the callbacks of one client, and logs its connection.

    Attributes:
        is_closing: True while the client itself closes its connection.
        wrap: A function that makes async functions of the callbacks, which run in another event loop; None for none.
    """

    is_closing: bool
    wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Awaitable[Any]]] | None

    def add(self, on_close: OnClose | None, on_error: OnError | None) -> None:
        """Add callbacks."""

    def open_session(self, connection: Connection, transport: Transport | RequestTransport, handle: Handle) -> Session:
        """Return the session of the client, which reports what it rejects."""
        ...

    def connecting(self) -> None:
        """Note when the client begins to connect."""

    def connected(self, session: Session, server: Any, revision: str) -> None:
        """Call the callbacks when the session ends."""

    def report(self, error: Exception) -> None:
        """Call the callbacks for an error that no call raises."""

    def watching(self, handle: Handle) -> Handle:
        """Return a function that handles messages, and reports the exceptions of their handlers."""
        ...

    async def finish(self) -> None:
        """Wait for the callbacks that are coroutines."""


def new_observer() -> ClientObserver:
    """Return an observer without callbacks. Raises LocalError where the product is not there."""
    observer: ClientObserver = products.require(_PRODUCT, "on_close= or on_error= of a client").new_observer()
    return observer


def observer_for_log(calls: logging.Logger) -> ClientObserver | None:
    """Return an observer if the calls of clients are logged, else None."""
    is_logged = calls.isEnabledFor(logging.DEBUG) and _telemetry() is not None
    return new_observer() if is_logged else None


def report_left_out(revision: Revision, row: Sent | InputRequest[Any], left_out: Sequence[LeftOut]) -> None:
    """Log a warning for each part that was left out of a message, and count them."""
    for part in left_out[:_MAX_NAMED]:
        _log.warning("%r in %s: left out, because it cannot be read: %s", row.method, revision.id, part)
    if len(left_out) > _MAX_NAMED:
        _log.warning("%r in %s: %d further parts are left out", row.method, revision.id, len(left_out) - _MAX_NAMED)
    attributes = {"mcp.method.name": row.method, "mcp.protocol.version": revision.id}
    instruments().counted("left_out", attributes, len(left_out))
