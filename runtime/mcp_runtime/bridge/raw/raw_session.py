"""The session with an upstream: results that need no conversion pass as bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ...aio.eager import first_step
from ...errors import ConnectionClosedError, MCPError
from ...protocol.connection import Connection
from ...protocol.events import Event, NotificationReceived, ResponseReceived
from ...protocol.framing import OversizedMessage
from ...protocol.jsonrpc import Id
from ...session.interfaces import Channel, Reply
from ...session.replies import run_notification_handler
from ...session.session import Session
from .raw_connection import RawRequest

if TYPE_CHECKING:
    from pydantic import BaseModel

# Some write a space after each separator, as Python's json does.
_ID: Final = rb'"id": ?(0|[1-9]\d{0,14})'
_RESULT_AT_END: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?%b, ?"result": ?(?=\{)' % _ID)
_RESULT_FIRST: Final = re.compile(rb'\{"result": ?(?=\{)')
_ID_AT_END: Final = re.compile(rb'\}, ?"jsonrpc": ?"2\.0", ?%b\}\Z' % _ID)
_TAIL: Final = 64  # Bytes that have the members after a result.


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
        ...

    def end_with(self, outcome: BaseModel | MCPError) -> None:
        """Take a result that was parsed, or an error."""
        ...


class UpstreamSession(Session):
    """A session whose results pass as bytes, where the request allows it and the response is written as usual.

    The results are not validated: they pass as the upstream has written them, to the client of the request. A line
    break would end an event of an SSE stream, or a line of stdio, so that a result with one is parsed. `direct` has the
    requests that no task waits for.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Create a session, with the arguments of `Session`."""
        super().__init__(*arguments, **named)
        self.direct: dict[Id, DirectResponse] = {}

    def _receive_bytes(self, data: bytes | None) -> None:
        if data is None or type(data) is OversizedMessage or self._large is not None or not self._take_result(data):
            super()._receive_bytes(data)

    def _take_result(self, data: bytes) -> bool:
        """Return True if a message is the response to a request that waits for bytes, which has them now."""
        split = split_result(data)
        return split is not None and self._resolve_bytes(*split)

    def handle_event(self, event: Event, reply: Reply, channel: Channel) -> bool:
        """Handle an event; the response to a direct request goes to its client."""
        if type(event) is ResponseReceived and (call := self.direct.pop(event.id, None)) is not None:
            call.end_with(event.outcome)
            return False
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

    def _fail_pending(self) -> None:
        super()._fail_pending()
        while self.direct:
            id, call = self.direct.popitem()
            self.connection.discard(id)
            call.end_with(ConnectionClosedError(f"{call.method!r}: {self.transport.close_reason}"))

    def _run_notification_handler(self, notification: NotificationReceived) -> None:
        """Pass a notification at once, before the response that follows it."""
        try:
            rest = first_step(run_notification_handler(notification, self.handle, self))
        except StopIteration:
            return
        if (task := self._handlers.start(_finish(rest))) is not None:
            self._handlers = self._handlers.add(task)
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


async def _finish(rest: Awaitable[None]) -> None:
    await rest
