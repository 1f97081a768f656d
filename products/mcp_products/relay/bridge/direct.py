"""A request of a client that passes directly: the session with the upstream sends its response."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_core import from_json, to_json

from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError, RemoteJSONRPCError
from mcp_runtime.protocol.connection import Event, RequestReceived
from mcp_runtime.protocol.jsonrpc import Id, OutgoingMessage, RequestMessage, serialize
from mcp_runtime.protocol.lifecycle import Phase
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import META
from mcp_runtime.session.interfaces import Channel, Reply
from mcp_runtime.session.session import Session, error_response

from ..upstream.connection import UpstreamConnection
from ..upstream.raw import FROM_CLIENT, RawRequest, RawResult, raw_request
from .state import ClientCall

if TYPE_CHECKING:
    from pydantic import BaseModel

_MAX_CALLS: Final = 1024  # Calls of one upstream that pass directly at the same time; further ones wait in the session.
_MAX_LINE: Final = 1 << 16  # Bytes of a line that passes as it is: reading the JSON of longer ones takes turns.
_ID: Final = rb'(0|[1-9]\d{0,14}|"[\w.-]{1,64}")'
_METHOD: Final = rb'"([\w/.-]{1,100})"'
_HEAD: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?%b, ?"method": ?%b, ?"params": ?(?=\{)' % (_ID, _METHOD))
_METHOD_FIRST: Final = re.compile(rb'\{"method": ?%b, ?"params": ?(?=\{)' % _METHOD)
_ID_LAST: Final = re.compile(rb'\}, ?"jsonrpc": ?"2\.0", ?"id": ?%b\}\Z' % _ID)
_HANDLED: Final = frozenset({"progressToken", f"{META}protocolVersion"})  # Of `_meta`.
_TAIL: Final = 112  # Bytes that have the members after the params.


class DirectCall(ClientCall):
    """A request whose response goes to the client as soon as it is there. `number` is its id at the upstream.

    `name` is its id as the client has written it.
    """

    __slots__ = ("session", "link", "request", "reply", "number", "name")

    def __init__(
        self,
        session: DirectSession,
        link: UpstreamConnection,
        request: RequestReceived,
        name: bytes,
        reply: Reply,
        channel: Channel,
    ) -> None:
        self.channel = channel
        self.id = request.id
        self.method = request.row.method
        self.suspended = None
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
        return error if isinstance(error, JSONRPCError) else self.link.upstream.names.failure(error)


# The session with a client: requests in the revision of the upstream pass without a task, and without their JSON.


class DirectRelay(Protocol):
    """What decides whether a request may pass directly: the relay of a session."""

    own_methods: frozenset[str]

    @property
    def direct_link(self) -> UpstreamConnection | None:
        """The open link, if all that passes over it is the same on both sides."""
        ...


class DirectSession(Session):
    """A session whose requests pass directly where its relay allows it."""

    relay: DirectRelay | None = None
    _direct: dict[Id, DirectCall] | None = None

    @property
    def direct(self) -> dict[Id, DirectCall]:
        """The calls that pass directly, by their ids."""
        calls = self._direct
        if calls is None:
            calls = self._direct = {}
        return calls

    def receive_bytes(self, data: bytes | None) -> None:
        if type(data) is bytes and len(data) <= _MAX_LINE and self._large is None and self._passes(data):
            return
        super().receive_bytes(data)

    def _passes(self, data: bytes) -> bool:
        """Pass a line whose members are in one of the usual orders, with the bytes of its params; False for others."""
        link = self._link()
        if link is None:
            return False
        if (match := _HEAD.match(data)) is not None:
            name, method, params = match[1], match[2], data[match.end() : -1]
        else:
            first, last = _METHOD_FIRST.match(data), _ID_LAST.search(data, max(len(data) - _TAIL, 0))
            if first is None or last is None:
                return False
            name, method, params = last[1], first[1], data[first.end() : last.start() + 1]
        row = raw_request(method.decode("ascii"), FROM_CLIENT, True)
        try:
            parsed: Any = from_json(
                params, allow_inf_nan=False
            )  # So the line is exactly a request: no member is twice.
        except ValueError:
            return False
        id: Id = name[1:-1].decode("ascii") if name[0] == 34 else int(name)
        connection = self.connection
        in_flight = connection.in_flight
        if not self._is_plain(row.method, parsed) or in_flight is None or id in in_flight or not data.endswith(b"}"):
            return False
        connection.in_flight = in_flight = in_flight or {}
        in_flight[id] = None
        request = RequestReceived(id, row, parsed)
        if self._begin(link, request, name, params, self._respond, self):
            return True
        del in_flight[id]
        return False

    def handle_event(self, event: Event, reply: Reply, channel: Channel) -> bool:
        """Pass a request directly where that is possible."""
        if type(event) is RequestReceived and type(event.row) is RawRequest and (link := self._link()) is not None:
            params = event.params
            if self._is_plain(event.row.method, params):
                name = b"%d" % event.id if type(event.id) is int else to_json(event.id)
                if self._begin(link, event, name, serialize(params), reply, channel):
                    return True
        return super().handle_event(event, reply, channel)

    def _link(self) -> UpstreamConnection | None:
        relay = self.relay
        if relay is None or self.connection.phase is not Phase.OPEN or self._handlers.is_full:
            return None
        link = relay.direct_link
        return link if link is not None and len(link.running) < _MAX_CALLS else None

    def _is_plain(self, method: str, params: Any) -> bool:
        """Return True unless the bridge handles the method itself, or the params have a progress token or name the
        version of a request that belongs to no session."""
        assert self.relay is not None, "a link belongs to a relay"
        if method in self.connection.receivable or method in self.relay.own_methods or not is_object(params):
            return False
        meta = params.get("_meta")
        return meta is None or (is_object(meta) and _HANDLED.isdisjoint(meta))

    def _begin(
        self,
        link: UpstreamConnection,
        request: RequestReceived,
        name: bytes,
        params: bytes,
        reply: Reply,
        channel: Channel,
    ) -> bool:
        call = DirectCall(self, link, request, name, reply, channel)
        try:
            call.send(raw_request(request.row.method, FROM_CLIENT, True), params, request.params)
        except ConnectionClosedError:
            return False  # The relay opens another link.
        self.direct[request.id] = call
        return True

    def _respond(self, response: bytes | None, code: int) -> None:
        """Send a response over stdio; those of one turn of the event loop are written together."""
        if response is None:
            return
        with suppress(ConnectionClosedError):  # The client has gone.
            self.transport.send(response, more=bool(self._direct))

    def cancel_handler(self, id: Id, reason: str | None) -> None:
        """Cancel a call, or the handler of a request."""
        call = self._direct.get(id) if self._direct else None
        if call is None:
            return super().cancel_handler(id, reason)
        call.cancel(reason)

    async def stop(self) -> None:
        """End the session: its calls get no response."""
        await super().stop()
        for call in list(self.direct.values()):
            call.cancel(None)
