"""A session: runs a connection with asyncio over a transport, and calls the handlers of its messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ..aio import forks
from ..aio.tasks import TaskStarter, adopted_task, end_process
from ..errors import (
    ConnectionClosedError,
    InvalidMessageError,
    JSONRPCError,
    MCPError,
    ProtocolViolationError,
    RemoteJSONRPCError,
    RequestTimeoutError,
    UnwritableValueError,
)
from ..protocol import jsonrpc
from ..protocol.connection import (
    Batch,
    Connection,
    Event,
    MessageRejected,
    NotificationReceived,
    Redirected,
    RequestReceived,
    ResponseReceived,
)
from ..protocol.framing import LARGE, OversizedMessage
from ..protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Id,
    NotificationMessage,
    OutgoingMessage,
    RequestMessage,
    to_plain,
)
from ..protocol.lifecycle import Phase
from ..protocol.models import is_model
from ..protocol.revision import Notification, Request
from ..usage.texts import shortened
from .handlers import RunningHandlers, RunningRequest, ignore_response
from .interfaces import (
    Channel,
    Reply,
    RequestAuth,
    RequestTransport,
    Send,
    Transport,
    WaitingMessages,
    closed_error,
    large_messages,
)
from .requests import PendingRequests, RequestOptions

if TYPE_CHECKING:
    from pydantic import BaseModel

ENDS_PROCESS: Final = (SystemExit, KeyboardInterrupt)
Handle = Callable[[Channel, RequestReceived | NotificationReceived], Awaitable[Any]]
_log: Final = logging.getLogger(__name__)
_DRAIN_SECONDS: Final = 1.0  # Seconds for handlers to finish after the peer has closed the connection.


# The response to a JSON-RPC batch: one message with the responses to all of its requests.


class BatchResponse:
    """Collects the responses to the events of a batch; `pending` are the numbers of events without a response yet."""

    __slots__ = ("pending", "_responses", "_reply")

    def __init__(self, events: list[Event], reply: Reply) -> None:
        self.pending = {number for number, event in enumerate(events) if _expects_response(event)}
        self._responses: list[bytes] = []
        self._reply = reply

    def add_response(self, number: int, response: bytes | None, code: int = 0) -> None:
        """Add the response to an event, None for a cancelled request; reply to the batch with the last one."""
        if number not in self.pending:
            return
        self.pending.discard(number)
        if response is not None:
            self._responses.append(response)
        if not self.pending:
            # None if all requests were cancelled.
            self._reply(jsonrpc.batch(self._responses) if self._responses else None, 0)


def _expects_response(event: Event) -> bool:
    """Return True if an event of a batch gets a response."""
    return isinstance(event, RequestReceived) or (isinstance(event, MessageRejected) and event.reply is not None)


# Run the handlers of requests and notifications, in sessions and for stateless requests.


async def run_notification_handler(notification: NotificationReceived, handle: Handle, channel: Channel) -> None:
    """Run the handler of a notification; log what it raises, because a notification has no response."""
    try:
        await handle(channel, notification)
    except Exception:
        _log.exception("the handler of %r failed", notification.row.method)


def error_response(connection: Connection, request: RequestReceived, error: BaseException) -> tuple[bytes, int]:
    """Return the error response to a request whose handler failed, and its code.

    Sent with their messages are a JSONRPCError, an UnwritableValueError, and what the client itself has refused; other
    exceptions become "internal error" and are logged. What is not an Exception is named: that shows nothing of the
    handler.
    """
    if isinstance(error, MCPError) and error.is_refusal and not isinstance(error, JSONRPCError):
        error = _refusal(request, error)
    if isinstance(error, JSONRPCError):
        code = connection.revision.error_code_to_send(error.code)
        if code != error.code:
            _log.warning("%r: %d is sent instead of the reserved code %d", request.row.method, code, error.code)
        return connection.send_error(request, code, error.message, error.data), code
    text = "internal error"
    if isinstance(error, UnwritableValueError):  # Its message has places and types, and no values.
        text = f"{text}: {error}"
    elif not isinstance(error, Exception):
        text = f"{'the server ends' if isinstance(error, ENDS_PROCESS) else text}: {ended(request.row.method, error)}"
    if isinstance(error, (InvalidMessageError, UnwritableValueError)):
        _log.error("%s", error)
    else:
        _log.error("the handler of %r failed", request.row.method, exc_info=error)
    return connection.send_error(request, INTERNAL_ERROR, text), INTERNAL_ERROR


def ended(method: str, error: BaseException) -> str:
    """Return what a handler has done that has cancelled its own task, or has raised what is not an Exception."""
    if isinstance(error, asyncio.CancelledError):
        return f"the handler of {method!r} was cancelled, but its request was not"
    return f"the handler of {method!r} has raised {type(error).__name__}"


def _refusal(request: RequestReceived, error: MCPError) -> JSONRPCError:
    """Return the error that the client gets for its own refusal, or for what it cannot do."""
    _log.warning("the handler of %r needs what its client has refused: %s", request.row.method, error)
    if isinstance(error, RemoteJSONRPCError):
        return JSONRPCError(error.code, error.message, error.data)
    return JSONRPCError(INVALID_REQUEST, str(error))


def is_cancelled(error: BaseException, besides: int = 0) -> bool:
    """Return True for the end of a task that is cancelled, and not only of something that it waited for; `besides` the
    cancellations that the caller knows."""
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > besides


def is_ended_by_others(error: BaseException, request: RequestReceived, is_ended: bool) -> bool:
    """Return True for the end of a handler whose request is cancelled, or whose connection ends, and not for one that
    has cancelled its own task, or raised GeneratorExit.

    Args:
        error: What the handler has raised.
        request: Its request.
        is_ended: Whether this side has ended the handler.
    """
    if is_ended and isinstance(error, (asyncio.CancelledError, GeneratorExit)):
        return True  # Without a task of its own, what it waited for was cancelled.
    return is_cancelled(error) and not request.open


class Session:
    """One connection over one transport. `run` receives messages; other methods may be called from any task meanwhile.

    `handle` runs the handler of a message and returns its result. `on_initialize` negotiates the version synchronously,
    for messages that follow immediately, and returns the result of `initialize`, or None if `handle` returns it."""

    __slots__ = ("connection", "auth", "scope", "transport", "handle", "ended", "_on_initialize", "_pending",
                 "running", "_handlers", "_message_size", "_input_ended", "_closed", "_large",
                 "_request_transport", "note_request", "forks")  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        transport: Transport | RequestTransport,
        handle: Callable[[Channel, RequestReceived | NotificationReceived], Awaitable[Any]],
        on_initialize: Callable[[Connection, RequestReceived], BaseModel | None] | None = None,
        starter: TaskStarter | None = None,
        auth: RequestAuth | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        self.connection = connection
        self.auth = auth
        self.scope = scope
        self.transport: Any = transport
        # One name tells: to look for all those of a protocol takes longer than to handle a request.
        self._request_transport = cast("RequestTransport", transport) if hasattr(transport, "set_sink") else None
        self.handle = handle
        self._on_initialize = on_initialize
        loop = asyncio.get_running_loop()
        self._pending = PendingRequests(loop)
        self.running: dict[Id, RunningRequest] = {}
        self._message_size = 0
        self.ended = False
        self._large: WaitingMessages | None = None  # The messages that wait, if a large one is being handled.
        self._handlers = RunningHandlers(loop, starter)
        self._input_ended: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] | None = None
        self.note_request: Callable[[RequestReceived, bool], None] | None = None  # With True if it has ended at once.
        self.forks = forks.count

    @property
    def closed(self) -> asyncio.Future[None]:
        """A future that is done when the connection has ended; do not cancel it."""
        if self._closed is None:
            self._closed = self._handlers.loop.create_future()
            if self.ended:
                self._closed.set_result(None)
        return self._closed

    @property
    def is_busy(self) -> bool:
        """True if a handler runs, or a request waits for its response."""
        return bool(self.running) or len(self._pending) > 0

    # ---- receiving --------------------------------------------------------------------------------------------------

    async def run(self, first: bytes | None = None) -> None:
        """Receive messages, the first of which may be `first`; in the end fail requests with ConnectionClosedError."""
        handlers = self.begin()
        push: Any = handlers.push
        if first is not None:
            self.receive_bytes(first)
        try:
            if self._request_transport is not None:
                self._request_transport.set_sink(self)
            if push is not None:
                self._input_ended = handlers.loop.create_future()
                push.set_receiver(self.receive_bytes)
                await self._input_ended
            else:
                await self._receive()
            if self._large is not None:
                await self._large.finish()
        except ConnectionClosedError as error:
            _log.debug("%s", error)
        except asyncio.CancelledError:
            if self._large is not None:
                self._large.cancel()
            self._fail_pending()
            await self._handlers.finish(0)
            raise
        await self.end()

    def begin(self) -> RunningHandlers:
        """Begin to handle messages, which `run` reads, or else another session of the same transport."""
        handlers = self._handlers
        handlers.drain = self.transport.drain
        handlers.push = self.transport if hasattr(self.transport, "resume") else None
        return handlers

    async def end(self) -> None:
        """Fail the requests of this side, and let the handlers of the peer's end."""
        self._fail_pending()
        await self._handlers.finish(_DRAIN_SECONDS)

    async def _receive(self) -> None:
        while (data := await self.transport.receive()) is not None:
            self.receive_bytes(data)
            if self._large is not None:
                await self._large.finish()
            if self._handlers.defers:
                await asyncio.sleep(0)  # The handler begins before the output is checked and the next message read.
            await self.transport.drain()

    def receive_bytes(self, data: bytes | None) -> None:
        """Handle a message; None at the end of the input."""
        if data is not None:
            self._message_size = len(data)
            if self._large is None and self._message_size > LARGE and (large := large_messages()) is not None:
                self._large = large.LargeMessages(self.connection, self._handlers.push, self._handle_later)
            if self._large is not None:  # It is handled in pieces, and those that arrive meanwhile wait.
                return self._large.add(data)
            if type(data) is OversizedMessage:
                event = self.connection.oversized(data)
            else:
                event = self.connection.receive_message(jsonrpc.decode(data))
            self.handle_event(event, self._send, self)
        elif self._input_ended is not None and not self._input_ended.done():
            self._input_ended.set_result(None)

    def _handle_later(self, event: Event | None, size: int) -> None:
        """Handle the event of a message that has waited; None if no message waits any more."""
        if event is None:
            self._large = None
        else:
            self._message_size = size
            self.handle_event(event, self._send, self)

    # ---- a thread that reads in the place of the event loop ----------------------------------------------------------

    def has_work(self) -> bool:
        """Return True if handlers run or a large message is being handled: messages go to `receive_bytes` then."""
        return bool(self.running) or self._large is not None

    def answering(self, request: RequestReceived) -> Coroutine[Any, Any, None]:
        """Return a coroutine that runs the handler of a request and sends its response."""
        return self._run_request_handler(request, self._send, self)

    def adopt(self, request: RequestReceived, coro: Coroutine[Any, Any, None], context: Context, until: Any) -> None:
        """Let the handler of a request, which a thread has begun, go on as a task."""
        task = adopted_task(self._handlers.loop, coro, context, until)
        self._handlers.add(task)
        self.running[request.id] = RunningRequest(request, self._send, task)

    def receive_event(self, event: Event) -> None:
        """Handle an event of a message that was read already."""
        self.handle_event(event, self._send, self)

    # ---- messages of request transports ------------------------------------------------------------------------------

    def receive_message(self, message: jsonrpc.Message | list[jsonrpc.Message]) -> None:
        """Handle a message of a request transport."""
        self.handle_event(self.connection.receive_message(message), self._send, self)

    def fail_request(self, id: Id, error: MCPError) -> None:
        """Fail a request that gets no response."""
        self.connection.discard(id)
        self._pending.resolve(id, error)

    def handle_event(self, event: Event, reply: Reply, channel: Channel) -> bool:
        """Handle an event; handlers use `channel`. Return True if `reply` was called or will be."""
        if isinstance(event, RequestReceived):  # `match` is slower.
            if self._on_initialize is not None and event.row is self.connection.initialize_row:
                result = self._on_initialize(self.connection, event)
                self._on_initialize = None  # Called once.
                if result is not None:
                    reply(self.connection.send_result(event, result), 0)
                    return True
            if (handlers := self._handlers).is_full and handlers.postpone(
                self.connection, event, reply, partial(self.handle_event, event, reply, channel), self._message_size
            ):
                return True
            if (task := handlers.start(self._run_request_handler(event, reply, channel))) is not None:
                handlers.add(task)
                self.running[event.id] = RunningRequest(event, reply, task)
            if self.note_request is not None:
                self.note_request(event, task is None)
            return True
        match event:
            case NotificationReceived():
                self._handle_notification(event)
            case ResponseReceived():
                self._pending.resolve(event.id, event.outcome)
            case MessageRejected():
                _log.debug("rejected: %s", event.reason)
                if event.reply is not None:
                    reply(event.reply, event.code)
                    return True
            case Redirected():
                return bool(event.handle(reply))
            case Batch():
                batch = BatchResponse(event.events, reply)  # All responses are sent in one message.
                expects_response = bool(batch.pending)
                for number, item in enumerate(event.events):
                    self.handle_event(item, partial(batch.add_response, number), channel)
                return expects_response
        return False

    async def _run_request_handler(self, request: RequestReceived, reply: Reply, channel: Channel) -> None:
        """Run the handler of a request and send its response; exceptions become error responses."""
        running, code = None, 0
        ends: BaseException | None = None
        try:  # As `run_request_handler` does: a coroutine less for each request.
            result = await self.handle(channel, request)
            is_open = request.open
            response = self.connection.send_result(request, result)
        except BaseException as error:
            is_open = request.open
            if is_ended_by_others(error, request, self.ended or self._handlers.loop.is_closed()):
                raise
            response, code = error_response(self.connection, request, error)
            ends = error if isinstance(error, ENDS_PROCESS) else None
        finally:
            if self.running and (running := self.running.get(request.id)) is not None and running.request is request:
                self._handlers.remove(running.task)
        if is_open:
            if running is not None:  # The entry belongs to this request: its id is in use while the request is open.
                del self.running[request.id]
                if not self.running:
                    self.running.clear()  # Frees the memory of the entries.
            reply(response, code)
        if ends is not None:
            end_process(ends)

    def cancel_handler(self, id: Id, reason: str | None) -> None:
        """Cancel the handler of a request; the request ends at once. The CancelledError has the reason."""
        if self.connection.phase is not Phase.OPEN:
            return  # `initialize` must not be cancelled, and no other request is handled before its response.
        if (waiting := self._handlers.pop_waiting(id)) is not None:
            self.connection.finish(waiting[0])
            waiting[1](None, 0)
        elif (running := self.running.pop(id, None)) is not None:
            self.connection.finish(running.request)
            running.task.add_done_callback(self._handlers.remove)
            running.task.cancel(reason)
            running.reply(None, 0)

    def _handle_notification(self, notification: NotificationReceived) -> None:
        """Apply a cancellation or progress to its request; then run the handler of the notification."""
        lifecycle = self.connection.revision.lifecycle
        if notification.row.method == lifecycle.cancelled.method:
            reason = notification.params.reason
            shown = None if reason is None else shortened(reason)
            _log.debug("the peer cancels %r: %r", notification.params.request_id, shown)
            self.cancel_handler(notification.params.request_id, reason)
        elif notification.row.method == lifecycle.progress.method:
            self._pending.handle_progress(notification.params)
        begin = partial(self._run_notification_handler, notification)
        if not self._handlers.is_full:
            return begin()
        self._handlers.postpone(self.connection, notification, ignore_response, begin, self._message_size)

    def _run_notification_handler(self, notification: NotificationReceived) -> None:
        # Its messages belong to no request, so the channel of the handler is the session.
        if (task := self._handlers.start(run_notification_handler(notification, self.handle, self))) is not None:
            task.add_done_callback(self._handlers.remove)

    # ---- sending ----------------------------------------------------------------------------------------------------

    def _send(self, message: bytes | None, code: int = 0) -> None:
        try:
            if message is not None and self._request_transport is not None:
                self._request_transport.send_message(OutgoingMessage(None, message))
            elif message is not None:
                self.transport.send(message, more=bool(self.running))
        except ConnectionClosedError as error:
            _log.debug("not sent: %s", error)

    async def send_request(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
        send: Send | None = None,
        request_id: Id | None = None,
    ) -> BaseModel:
        """Send a request and return its result. Raises MCPError.

        `send` sends the message instead of the transport; `request_id` is an id from `next_id` of the connection.
        """
        if self.ended or self.forks != forks.count:
            raise ConnectionClosedError(f"{row.method!r}: {self._reason_of_end()}")
        request_id = self.connection.next_id() if request_id is None else request_id
        if options.on_progress is not None and isinstance(params, dict):
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": request_id}}
        encoded = self.connection.send_request(request_id, row, params)
        pending = self._pending.open(request_id, row, options)
        try:
            if send is not None:
                send(encoded)
            elif self._request_transport is not None:
                plain = params if isinstance(params, dict) else to_plain(params)
                message = RequestMessage(request_id, row.method, plain)
                self._request_transport.send_message(OutgoingMessage(message, encoded))
            else:
                self.transport.send(encoded, more=len(self._pending) > 1)
            return await pending.future
        except (asyncio.CancelledError, RequestTimeoutError) as error:
            self._send_cancelled(request_id, row, send, error)
            raise
        finally:
            self._pending.close(pending)
            self.connection.discard(request_id)

    def _send_cancelled(self, request_id: Id, row: Request[Any], send: Send | None, error: BaseException) -> None:
        """Send a cancellation with the text of the error as its reason; `initialize` must not be cancelled."""
        if not self.connection.discard(request_id) or row is self.connection.initialize_row or self.ended:
            return
        try:
            cancelled = self.connection.local_row(self.connection.revision.lifecycle.cancelled)
            self._transmit(cancelled, {"requestId": request_id, **({"reason": str(error)} if error.args else {})}, send)
        except (ProtocolViolationError, ConnectionClosedError) as error:
            _log.debug("not sent: %s", error)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification. Raises MCPError."""
        if self.ended or self.forks != forks.count:
            raise ConnectionClosedError(f"{row.method!r}: {self._reason_of_end()}")
        self._transmit(row, params)
        await self.transport.drain()

    def _reason_of_end(self) -> str:
        return "the connection is closed" if self.forks == forks.count else forks.OTHER_PROCESS

    def _transmit(self, row: Notification, params: Any, send: Send | None = None) -> None:
        encoded = self.connection.send_notification(row, params)
        if send is not None:
            send(encoded)
        elif self._request_transport is not None:
            message = NotificationMessage(row.method, to_plain(params) if is_model(params) else params)
            self._request_transport.send_message(OutgoingMessage(message, encoded))
        else:
            self.transport.send(encoded)

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Do nothing: messages of a session itself belong to no HTTP request."""

    async def close(self) -> None:
        """Close the connection; all pending requests fail with ConnectionClosedError."""
        self._fail_pending(ConnectionClosedError("this side has closed the connection"))
        await self.transport.close()

    async def stop(self) -> None:
        """End a session that `handle_event` drives instead of `run`: fail pending requests, cancel all handlers."""
        self._fail_pending()
        await self._handlers.finish(0)
        while self.running:
            self.running.popitem()[1].reply(None, 0)

    def _fail_pending(self, error: ConnectionClosedError | None = None) -> None:
        if not self.ended and self._closed is not None:
            self._closed.set_result(None)
        self.ended = True
        self._pending.fail(error or closed_error(self.transport))
