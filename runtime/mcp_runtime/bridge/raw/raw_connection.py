"""One side of a connection whose messages pass without validation, except those of the lifecycle."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_json

from ...errors import InvalidMessageError
from ...protocol import jsonrpc
from ...protocol.connection import Connection
from ...protocol.events import Event, NotificationReceived, RequestReceived
from ...protocol.jsonrpc import Id, NotificationMessage, RequestMessage
from ...protocol.lifecycle import Phase, is_allowed
from ...protocol.revision import OPPOSITE, Direction, Handshake, Notification, Request, Revision, Sent

_MAX_NAME: Final = 100  # Characters of a method whose row is cached: the peer chooses the names.
_MAX_ROWS: Final = 1000

FROM_CLIENT: Final[Direction] = "client_to_server"
FROM_SERVER: Final[Direction] = "server_to_client"


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


_requests: Final[dict[tuple[str, Direction, bool], RawRequest]] = {}
_notifications: Final[dict[tuple[str, Direction], Notification]] = {}


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
