"""One side of a connection whose messages pass without validation, except those of the lifecycle."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Protocol, cast

from pydantic import BaseModel
from pydantic_core import to_json

from mcp_runtime.aio.tasks import begin_at_once
from mcp_runtime.errors import ConnectionClosedError, InvalidMessageError, MCPError
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.connection import (
    Connection,
    Event,
    MessageRejected,
    NotificationReceived,
    RequestReceived,
    ResponseReceived,
)
from mcp_runtime.protocol.framing import OversizedMessage
from mcp_runtime.protocol.jsonrpc import Id, NotificationMessage, RequestMessage
from mcp_runtime.protocol.lifecycle import Phase, is_allowed
from mcp_runtime.protocol.revision import OPPOSITE, Direction, Handshake, Notification, Request, Revision, Sent
from mcp_runtime.session.interfaces import Channel, Reply, closed_error
from mcp_runtime.session.session import Session, run_notification_handler
from mcp_runtime.usage.texts import quoted, shortened

_log: Final = logging.getLogger("mcp_runtime.relay.upstream")
_MAX_NAME: Final = 100  # Characters of a method whose row is cached: the peer chooses the names.
_MAX_ROWS: Final = 1000
_MAX_LINE: Final = 1000  # Bytes of a line that is not a message, of which the log shows the beginning.

FROM_CLIENT: Final[Direction] = "client_to_server"
FROM_SERVER: Final[Direction] = "server_to_client"
_requests: Final[dict[tuple[str, Direction, bool], RawRequest]] = {}
_notifications: Final[dict[tuple[str, Direction], Notification]] = {}

# Some write a space after each separator, as Python's json does.
_ID: Final = rb'"id": ?(0|[1-9]\d{0,14})'
_RESULT_AT_END: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?%b, ?"result": ?(?=\{)' % _ID)
_RESULT_FIRST: Final = re.compile(rb'\{"result": ?(?=\{)')
_ID_AT_END: Final = re.compile(rb'\}, ?"jsonrpc": ?"2\.0", ?%b\}\Z' % _ID)
_TAIL: Final = 64  # Bytes that have the members after a result.


class RawResult(BaseModel):
    """A result that passes: parsed JSON, or the bytes of it."""

    value: Any


class RawRequest(Request[RawResult]):
    """The row of a request of any method; with `as_bytes`, its result need not be parsed.

    `encoded_method` is the method as JSON, without quotation marks.
    """

    as_bytes: bool = False
    encoded_method: bytes = b""

    def read_result(self, value: object, params: object = None, left_out: object = None) -> BaseModel:
        """Return the result as it is."""
        return RawResult.model_construct(value=value)


def raw_request(method: str, direction: Direction, as_bytes: bool = False) -> RawRequest:
    """Return the row of a request of this method."""
    row = _requests.get((method, direction, as_bytes))
    if row is None:
        row = RawRequest(method, method, None, RawResult, direction=direction)
        object.__setattr__(row, "as_bytes", as_bytes)
        object.__setattr__(row, "encoded_method", to_json(method)[1:-1])
        if len(method) <= _MAX_NAME and len(_requests) < _MAX_ROWS:
            _requests[method, direction, as_bytes] = row
    return row


def raw_notification(method: str, direction: Direction) -> Notification:
    """Return the row of a notification of this method."""
    row = _notifications.get((method, direction))
    if row is None:
        row = Notification(method, method, None, direction=direction)
        if len(method) <= _MAX_NAME and len(_notifications) < _MAX_ROWS:
            _notifications[method, direction] = row
    return row


@cache
def _lifecycle_rows(revision: Revision, received: Direction, phase: Phase) -> Mapping[str, Sent]:
    """Return the messages that the session itself handles, which are validated."""
    lifecycle = revision.lifecycle
    roles: list[Sent] = [lifecycle.cancelled, lifecycle.progress]
    if isinstance(lifecycle, Handshake):
        roles += [lifecycle.initialize_request, lifecycle.initialized, lifecycle.ping_request]
    table = revision.table(received)
    rows = [table[role.method] for role in roles if role.method in table]
    return {row.method: row for row in rows if is_allowed(lifecycle, phase, row)}


class RawConnection(Connection):
    """One side of a connection: params and results are plain JSON, of any method."""

    __slots__ = ()

    @property
    def received(self) -> Direction:
        """The direction of the messages that this side receives."""
        return FROM_CLIENT if self.side == "server" else FROM_SERVER

    def enter_phase(self, phase: Phase) -> None:
        """Enter a phase; only messages of the lifecycle are validated in it."""
        super().enter_phase(phase)
        self.receivable = _lifecycle_rows(self.revision, self.received, phase)

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def _received_request(self, message: RequestMessage, in_batch: bool) -> Event:
        if message.method in self.receivable or self.phase is not Phase.OPEN:
            event = super()._received_request(message, in_batch)
            if isinstance(event, RequestReceived):
                event.params = message.params or {}
            return event
        in_flight = self.in_flight
        if in_flight is not None:
            if message.id in in_flight:
                return self._reject(message, jsonrpc.INVALID_REQUEST, f"id {message.id!r} is in use by another request")
            self.in_flight = in_flight or {}
            self.in_flight[message.id] = None
        return RequestReceived(message.id, raw_request(message.method, self.received), message.params or {})

    def _received_notification(self, message: NotificationMessage) -> Event:
        if message.method in self.receivable or self.phase is not Phase.OPEN:
            return super()._received_notification(message)
        return NotificationReceived(raw_notification(message.method, self.received), message.params or {})

    # ---- sending -----------------------------------------------------------------------------------------------------

    def send_request(self, id: Id, row: Request[Any], params: Any) -> bytes:
        """Serialize a request of any method and register it as pending. Raises InvalidMessageError."""
        data = self._serialized(row, jsonrpc.request, id, row.method, params)
        self.pending = self.pending or {}
        self.pending[id] = (row, params)
        return data

    def send_notification(self, row: Notification, params: Any) -> bytes:
        """Serialize a notification of any method. Raises InvalidMessageError."""
        return self._serialized(row, jsonrpc.notification, row.method, params or None)

    def send_result(self, request: RequestReceived, result: Any) -> bytes:
        """Serialize a result; bytes are JSON already."""
        try:
            body = result if type(result) is bytes else jsonrpc.serialize(result)
        except ValueError as error:
            raise InvalidMessageError(f"{request.row.method!r}: result: {error}") from None
        name = b"%d" % request.id if type(request.id) is int else to_json(request.id)
        self.finish(request)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (name, body)

    def local_row(self, row: Notification) -> Notification:
        """Return the row of this method in the direction of this side."""
        return raw_notification(row.method, OPPOSITE[self.received])


# The session with an upstream: results that need no conversion pass as bytes.


def split_result(data: bytes) -> tuple[int, bytes] | None:
    """Return the id and the bytes of the result of a response; None for a message that has to be parsed."""
    if (match := _RESULT_AT_END.match(data)) is not None and data.endswith(b"}}"):
        body = data[match.end() : -1]
    elif (first := _RESULT_FIRST.match(data)) and (match := _ID_AT_END.search(data, max(len(data) - _TAIL, 0))):
        body = data[first.end() : match.start() + 1]
    else:
        return None
    return None if b"\r" in body or b"\n" in body else (int(match[1]), body)


def is_for_bytes(connection: Connection, id: Id) -> bool:
    """Return True if a request with this id waits for the bytes of its result."""
    entry = connection.pending.get(id)
    return entry is not None and type(row := entry[0]) is RawRequest and row.as_bytes


class DirectResponse(Protocol):
    """A request that waits for its response without a task. `number` is its id."""

    number: int

    @property
    def method(self) -> str: ...

    def respond_with(self, body: bytes) -> None:
        """Take the bytes of the result."""

    def end_with(self, outcome: BaseModel | MCPError) -> None:
        """Take a result that was parsed, or an error."""


class UpstreamSession(Session):
    """A session whose results pass as bytes, where the request allows it and the response is written as usual.

    The results are not validated: they pass as the upstream has written them, to the client of the request. A line
    break would end an event of an SSE stream, or a line of stdio, so that a result with one is parsed. `direct` has the
    requests that no task waits for. `name` names the upstream in the log.
    """

    name = ""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Create a session, with the arguments of `Session`."""
        super().__init__(*arguments, **named)
        self.direct: dict[Id, DirectResponse] = {}
        self._received: bytes | None = None  # The message that is being read.
        self._has_warned = False

    def receive_bytes(self, data: bytes | None) -> None:
        if data is None or type(data) is OversizedMessage or self._large is not None or not self._take_result(data):
            self._received = data
            super().receive_bytes(data)
            self._received = None

    def _take_result(self, data: bytes) -> bool:
        """Return True if a message is the response to a request that waits for bytes, which has them now."""
        split = split_result(data)
        return split is not None and self._resolve_bytes(*split)

    def handle_event(self, event: Event, reply: Reply, channel: Channel) -> bool:
        """Handle an event; the response to a direct request goes to its client."""
        if type(event) is ResponseReceived and (call := self.direct.pop(event.id, None)) is not None:
            call.end_with(event.outcome)
            return False
        if type(event) is MessageRejected and not event.is_late and not self._has_warned:
            self._has_warned = True  # Once: a process that prints may print much.
            line = (self._received or b"")[:_MAX_LINE].decode(errors="replace")
            reason = shortened(event.reason)
            _log.warning("%s: the server has sent what is not a message: %s (%s)", self.name, quoted(line), reason)
        return super().handle_event(event, reply, channel)

    def fail_request(self, id: Id, error: MCPError) -> None:
        """Fail a request that gets no response."""
        if (call := self.direct.pop(id, None)) is None:
            return super().fail_request(id, error)
        self.connection.discard(id)
        call.end_with(error)

    def cancel_direct(self, id: int, reason: str | None) -> None:
        """Cancel a direct request at the upstream, unless it has ended."""
        if self.direct.pop(id, None) is not None and (entry := self.connection.pending.get(id)) is not None:
            error = asyncio.CancelledError() if reason is None else asyncio.CancelledError(reason)
            self._send_cancelled(id, entry[0], None, error)

    def _fail_pending(self, error: ConnectionClosedError | None = None) -> None:
        super()._fail_pending(error)
        while self.direct:
            id, call = self.direct.popitem()
            self.connection.discard(id)
            call.end_with(closed_error(self.transport, f"{call.method!r}: "))

    def _run_notification_handler(self, notification: NotificationReceived) -> None:
        """Pass a notification at once, before the response that follows it."""
        handling = run_notification_handler(notification, self.handle, self)
        if (task := begin_at_once(self._handlers.loop, handling)) is not None:
            self._handlers.add(task)
            task.add_done_callback(self._handlers.remove)

    def _resolve_bytes(self, id: int, body: bytes) -> bool:
        """Return True if a request with this id waits for the bytes of its result, and has them now."""
        if not is_for_bytes(self.connection, id):
            return False
        del self.connection.pending[id]
        if (call := self.direct.pop(id, None)) is not None:
            call.respond_with(body)
        else:
            self._pending.resolve(id, cast("BaseModel", body))  # The caller, `Link.send`, expects bytes.
        return True
