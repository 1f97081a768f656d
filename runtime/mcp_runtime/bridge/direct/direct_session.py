"""The session with a client: requests in the revision of the upstream pass without a task, and without their JSON."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_core import from_json, to_json

from ...errors import ConnectionClosedError
from ...protocol.events import Event, RequestReceived
from ...protocol.jsonrpc import Id, serialize
from ...protocol.lifecycle import Phase
from ...protocol.models import is_object
from ...protocol.revision import META
from ...session.interfaces import Channel, Reply
from ...session.session import Session
from ..raw.raw_connection import FROM_CLIENT, RawRequest, raw_request
from .direct_call import DirectCall

if TYPE_CHECKING:
    from ..upstream.link import Link

_MAX_CALLS: Final = 1024  # Calls of one upstream that pass directly at the same time; further ones wait in the session.
_MAX_LINE: Final = 1 << 16  # Bytes of a line that passes as it is: reading the JSON of longer ones takes turns.
_ID: Final = rb'(0|[1-9]\d{0,14}|"[\w.-]{1,64}")'
_METHOD: Final = rb'"([\w/.-]{1,100})"'
_HEAD: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?%b, ?"method": ?%b, ?"params": ?(?=\{)' % (_ID, _METHOD))
_METHOD_FIRST: Final = re.compile(rb'\{"method": ?%b, ?"params": ?(?=\{)' % _METHOD)
_ID_LAST: Final = re.compile(rb'\}, ?"jsonrpc": ?"2\.0", ?"id": ?%b\}\Z' % _ID)
_HANDLED: Final = frozenset({"progressToken", f"{META}protocolVersion"})  # Of `_meta`.
_TAIL: Final = 112  # Bytes that have the members after the params.


class DirectRelay(Protocol):
    """What decides whether a request may pass directly: the relay of a session."""

    own_methods: frozenset[str]

    @property
    def direct_link(self) -> Link | None:
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

    def _receive_bytes(self, data: bytes | None) -> None:
        if type(data) is bytes and len(data) <= _MAX_LINE and self._large is None and self._passes(data):
            return
        super()._receive_bytes(data)

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

    def _link(self) -> Link | None:
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
        self, link: Link, request: RequestReceived, name: bytes, params: bytes, reply: Reply, channel: Channel
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
