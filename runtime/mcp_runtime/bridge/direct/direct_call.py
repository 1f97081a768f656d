"""A request of a client that passes directly: the session with the upstream sends its response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...errors import JSONRPCError, MCPError, RemoteJSONRPCError
from ...protocol.connection import Connection
from ...protocol.events import RequestReceived
from ...protocol.jsonrpc import Id, OutgoingMessage, RequestMessage
from ...session.interfaces import Channel, Reply
from ...session.replies import error_response
from ..raw.raw_connection import FROM_CLIENT, RawRequest, RawResult
from ..upstream.link import Call, Link, upstream_error

if TYPE_CHECKING:
    from pydantic import BaseModel


class CallingSession(Protocol):
    """The session of the client of a call; `direct` has its calls by their ids."""

    @property
    def connection(self) -> Connection: ...

    @property
    def direct(self) -> dict[Id, DirectCall]: ...


class DirectCall(Call):
    """A request whose response goes to the client as soon as it is there. `number` is its id at the upstream.

    `name` is its id as the client has written it.
    """

    __slots__ = ("session", "link", "request", "reply", "number", "name")

    def __init__(
        self,
        session: CallingSession,
        link: Link,
        request: RequestReceived,
        name: bytes,
        reply: Reply,
        channel: Channel,
    ) -> None:
        self.channel = channel
        self.id = request.id
        self.method = request.row.method
        self.exchange = None
        self.holds = False
        self.token = None
        self.session = session
        self.link = link
        self.request = request
        self.name = name
        self.reply = reply
        self.number = 0

    def send(self, row: RawRequest, params: bytes, parsed: Any) -> None:
        """Send the request, with the bytes of its params. Raises ConnectionClosedError.

        `parsed` are the same params, which transports over HTTP read.
        """
        link, upstream = self.link, self.link.upstream.session
        connection = upstream.connection
        number = connection.last_id = connection.last_id + 1
        self.number = number
        data = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (number, row.encoded_method, params)
        if link.is_http:
            upstream.transport.send_message(OutgoingMessage(RequestMessage(number, row.method, parsed), data))
        else:
            upstream.transport.send(data, more=bool(upstream.direct))
        connection.pending = connection.pending or {}
        connection.pending[number] = (row, None)
        link.running[number] = upstream.direct[number] = self

    def respond_with(self, body: bytes) -> None:
        """Send the result whose bytes these are; the session with the upstream has removed the call."""
        self._end()
        if self.request.open:
            self.session.connection.finish(self.request)
            self.reply(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (self.name, body), 0)

    def end_with(self, outcome: BaseModel | MCPError) -> None:
        """Send a result that was parsed, or an error; the session with the upstream has removed the call."""
        self._end()
        if not self.request.open:
            return
        connection, code = self.session.connection, 0
        try:
            if isinstance(outcome, MCPError):
                raise self._error(outcome)
            response = connection.send_result(self.request, outcome.value if type(outcome) is RawResult else None)
        except MCPError as error:
            response, code = error_response(connection, self.request, error)
        self.reply(response, code)

    def cancel(self, reason: str | None) -> None:
        """End the call without a response, and cancel it at the upstream."""
        self._end()
        self.link.upstream.session.cancel_direct(self.number, reason)
        self.session.connection.finish(self.request)
        self.reply(None, 0)

    def _end(self) -> None:
        link = self.link
        link.running.pop(self.number, None)
        link.touch()
        self.session.direct.pop(self.id, None)

    def _error(self, error: MCPError) -> MCPError:
        if isinstance(error, RemoteJSONRPCError):
            return self.link.translation.error(FROM_CLIENT, self.method, error)
        return error if isinstance(error, JSONRPCError) else upstream_error(error)
