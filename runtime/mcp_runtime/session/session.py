"""A session: runs a connection with asyncio over a transport, and calls the handlers of its messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..aio import forks
from ..aio.process_exit import end_process
from ..errors import ConnectionClosedError, MCPError, ProtocolViolationError, RequestTimeoutError
from ..protocol import jsonrpc
from ..protocol.connection import Connection
from ..protocol.events import (
    Batch,
    Event,
    MessageRejected,
    NotificationReceived,
    Redirected,
    RequestReceived,
    ResponseReceived,
)
from ..protocol.framing import OversizedMessage
from ..protocol.jsonrpc import Id, NotificationMessage, OutgoingMessage, RequestMessage, to_plain
from ..protocol.large.pieces import LARGE
from ..protocol.lifecycle import Phase
from ..protocol.models import is_model
from ..protocol.revision import Notification, Request
from ..usage.shortened import shortened
from .batch import BatchResponse
from .identity import RequestAuth
from .interfaces import Channel, PushTransport, Reply, RequestTransport, Send, Transport
from .large.incoming import LargeMessages
from .options import RequestOptions
from .pending import NO_REQUESTS, PendingRequests
from .replies import ENDS_PROCESS, error_response, is_ended_by_others, run_notification_handler
from .running import IdleHandlers, RunningHandlers, RunningRequest, ignore_response

if TYPE_CHECKING:
    from pydantic import BaseModel

_log: Final = logging.getLogger(__name__)

_NOTHING_RUNS: Final[dict[Id, RunningRequest]] = {}  # One object, which is not changed, for all idle sessions.
_DRAIN_SECONDS: Final = 1.0  # Seconds for handlers to finish after the peer has closed the connection.


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
        idle: IdleHandlers | None = None,
        auth: RequestAuth | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        self.connection = connection
        self.auth = auth
        self.scope = scope
        self.transport: Any = transport
        self._request_transport = transport if isinstance(transport, RequestTransport) else None
        self.handle = handle
        self._on_initialize = on_initialize
        self._pending = NO_REQUESTS
        self.running = _NOTHING_RUNS
        self._message_size = 0
        self.ended = False
        self._large: LargeMessages | None = None  # The messages that wait, if a large one is being handled.
        self._handlers: IdleHandlers | RunningHandlers = idle or RunningHandlers(asyncio.get_running_loop())
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
            self._receive_bytes(first)
        try:
            if self._request_transport is not None:
                self._request_transport.set_sink(self)
            if push is not None:
                self._input_ended = handlers.loop.create_future()
                push.set_receiver(self._receive_bytes)
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
        self._handlers = handlers = self._handlers.own()
        handlers.drain = self.transport.drain
        handlers.push = self.transport if isinstance(self.transport, PushTransport) else None
        return handlers

    async def end(self) -> None:
        """Fail the requests of this side, and let the handlers of the peer's end."""
        self._fail_pending()
        await self._handlers.finish(_DRAIN_SECONDS)

    async def _receive(self) -> None:
        while (data := await self.transport.receive()) is not None:
            self._receive_bytes(data)
            if self._large is not None:
                await self._large.finish()
            if self._handlers.defers:
                await asyncio.sleep(0)  # The handler begins before the output is checked and the next message read.
            await self.transport.drain()

    def _receive_bytes(self, data: bytes | None) -> None:
        if data is not None:
            self._message_size = len(data)
            if self._message_size > LARGE or self._large is not None:
                # It is handled in pieces, and those that arrive meanwhile wait.
                self._large = self._large or LargeMessages(self.connection, self._handlers.push, self._handle_later)
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
                self._handlers = self._handlers.add(task)
                self.running = self.running or {}
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
                self._handlers = self._handlers.remove(running.task)
        if is_open:
            if running is not None:  # The entry belongs to this request: its id is in use while the request is open.
                del self.running[request.id]
                self.running = self.running or _NOTHING_RUNS  # Frees the memory of the entries.
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
            self._handlers = self._handlers.add(task)
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
        self._pending = PendingRequests() if self._pending is NO_REQUESTS else self._pending
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
        self._fail_pending()
        await self.transport.close()

    async def stop(self) -> None:
        """End a session that `handle_event` drives instead of `run`: fail pending requests, cancel all handlers."""
        self._fail_pending()
        await self._handlers.finish(0)
        while self.running:
            self.running.popitem()[1].reply(None, 0)

    def _fail_pending(self) -> None:
        if not self.ended and self._closed is not None:
            self._closed.set_result(None)
        self.ended = True
        self._pending.fail(self.transport.close_reason)
