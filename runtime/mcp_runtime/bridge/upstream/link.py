"""One connection to an upstream, and the requests of clients that run over it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...aio.fan_out import FanOut
from ...aio.send_turns import SendTurns
from ...errors import (
    ConnectionClosedError,
    JSONRPCError,
    MCPError,
    RemoteError,
    RemoteJSONRPCError,
    RequestTimeoutError,
)
from ...http.client_keys import address_of, client_key
from ...protocol.events import NotificationReceived, RequestReceived
from ...protocol.jsonrpc import INTERNAL_ERROR, Id
from ...protocol.models import is_object
from ...protocol.revision import META
from ...session.interfaces import Channel, RequestTransport
from ...session.options import RequestOptions
from ..raw.raw_connection import FROM_CLIENT, FROM_SERVER, RawResult, raw_notification, raw_request
from ..translation.revision_translation import IGNORE, Translation
from .opening import OpenUpstream

_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # The client sets the timeout, and cancels.
_MAX_TOKENS: Final = 1000  # Progress tokens of requests that have ended, whose work may go on as a task.
SUBSCRIPTION: Final = f"{META}subscriptionId"


class Call:
    """A request of a client that waits for its result: its channel, its id, its method, and its progress token.

    `exchange` answers the requests of the upstream that belong to it. `holds` is True if log messages belong to it.
    """

    __slots__ = ("channel", "id", "method", "exchange", "holds", "token")

    def __init__(self, channel: Channel, id: Id, method: str, exchange: Any = None, holds: bool = False) -> None:
        self.channel = channel
        self.id = id
        self.method = method
        self.exchange = exchange
        self.holds = holds
        self.token: Any = None


class LinkEvents(Protocol):
    """Gets what an upstream sends besides results: the side of the clients."""

    async def notified(self, link: Link, method: str, params: dict[str, Any]) -> None:
        """Pass a notification that belongs to no request that runs."""
        ...

    async def requested(self, link: Link, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of the upstream, as JSON in the revision of the upstream."""
        ...

    def ended(self, link: Link) -> None:
        """Note that the upstream has ended."""
        ...


class Link:
    """A connection to an upstream: maps ids and progress tokens, and routes what the upstream sends."""

    def __init__(self, events: LinkEvents, owner: str = "") -> None:
        """Create a link of a user that is not open; `use` gives it the connection."""
        self.events = events
        self.owner = owner
        self.running: OrderedDict[Id, Call] = OrderedDict()
        self.users = 0
        self.listeners = 0
        self.is_held = False  # A request runs that messages of the upstream may belong to.
        self.is_abandoned = False  # A request that messages may belong to ended before the upstream had answered it.
        self.is_http = False
        self.last_used = 0.0
        self.level: Any = None  # The level of log messages that was set last for a request.
        self.give_place_back: Callable[[], None] | None = None  # Of a link that one session has for itself.
        self.fan_out: FanOut | None = None  # Where clients share the link, none that does not read may hold it.
        self.upstream: OpenUpstream
        self.translation: Translation
        self._turns = SendTurns()
        self._tokens: OrderedDict[Id, Any] = OrderedDict()

    def use(self, upstream: OpenUpstream, translation: Translation) -> None:
        """Set the open connection."""
        self.upstream = upstream
        self.translation = translation
        self.is_http = isinstance(upstream.session.transport, RequestTransport)
        upstream.session.closed.add_done_callback(lambda _: self.events.ended(self))

    def share_calls_of(self, link: Link) -> None:
        """Use the same table of calls as another link over the same connection."""
        self.running = link.running
        self._tokens = link._tokens
        self._turns = link._turns
        self.fan_out = link.fan_out

    @property
    def is_open(self) -> bool:
        """True until the upstream or this side closes the connection."""
        return not self.upstream.session.ended and not self.upstream.is_closing

    def touch(self) -> None:
        """Note that the connection was used now."""
        self.last_used = asyncio.get_running_loop().time()

    @property
    def last_call(self) -> Call | None:
        """The request that began last of those that run."""
        return self.running[next(reversed(self.running))] if self.running else None

    @property
    def last_holder(self) -> Call | None:
        """The request that log messages belong to."""
        return next((call for call in reversed(self.running.values()) if call.holds), None)

    async def close(self) -> None:
        """Close the connection."""
        try:
            await self.upstream.close()
        finally:
            self.free_place()

    def free_place(self) -> None:
        """Give the place of the link back, if it has one."""
        if self.give_place_back is not None:
            self.give_place_back()

    # ---- to the upstream ---------------------------------------------------------------------------------------------

    async def send(self, call: Call, params: dict[str, Any], seconds: float | None = None) -> Any:
        """Send the request of a call, with these params, and return its result as it is. Raises JSONRPCError."""
        session, method = self.upstream.session, call.method
        id = session.connection.next_id()
        meta = params.get("_meta")
        if meta is not None and is_object(meta) and "progressToken" in meta:
            call.token = meta["progressToken"]
            params = {**params, "_meta": {**meta, "progressToken": id}}
            self._remember(id, call.token)
        self.running[id] = call
        row = raw_request(self.translation.method(FROM_CLIENT, method), FROM_CLIENT, self.translation.is_same)
        options = _NO_TIMEOUT if seconds is None else RequestOptions(timeout=seconds)
        try:
            if self.fan_out is not None and not getattr(session.transport, "has_room", True):
                await self._take_turn(call.channel)
            result: Any = await session.send_request(row, params, options, request_id=id)
        except RemoteJSONRPCError as error:
            raise self.translation.error(FROM_CLIENT, method, error) from None
        except asyncio.CancelledError:
            self.is_abandoned = self.is_abandoned or self.is_held
            raise
        except RequestTimeoutError as error:
            self.is_abandoned = self.is_abandoned or self.is_held
            raise JSONRPCError(INTERNAL_ERROR, str(error)) from None
        except (ConnectionClosedError, RemoteError) as error:
            raise upstream_error(error) from None
        finally:
            self.running.pop(id, None)
            self.touch()
        return result if type(result) is bytes else result.value if type(result) is RawResult else None

    async def _take_turn(self, channel: Channel) -> None:
        """Wait for the turn of a client to send: large requests of another one may wait for the upstream to read."""
        client = client_key(None if channel.auth is None else channel.auth.owner, address_of(channel.scope))
        await self._turns.take(client, self.upstream.session.transport.drain)

    def _remember(self, id: Id, token: Any) -> None:
        self._tokens[id] = token
        if len(self._tokens) > _MAX_TOKENS:
            self._tokens.popitem(last=False)

    # ---- from the upstream -------------------------------------------------------------------------------------------

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Handle a message of the upstream."""
        method = message.row.method
        if isinstance(message, RequestReceived):
            if message.row is channel.connection.receivable.get(method):
                return {}  # A ping.
            return await self.events.requested(self, method, message.params)
        lifecycle = channel.connection.revision.lifecycle
        if method == lifecycle.cancelled.method:
            return None
        if not hasattr(self, "translation"):
            return None
        params = message.params if is_object(message.params) else message.params.model_dump()
        if method == lifecycle.progress.method:
            return await self._progress(method, params)
        meta = params.get("_meta")
        if is_object(meta) and SUBSCRIPTION in meta and (call := self._subscription(meta[SUBSCRIPTION])) is not None:
            params = {**params, "_meta": {**meta, SUBSCRIPTION: call.id}}
            return await self.pass_notification(call.channel, method, params)
        await self.events.notified(self, method, params)

    def stream_closed(self, id: Id) -> None:
        """Close the stream of the client too, which resumes it later: the upstream holds no connection until then."""
        call = self.running.get(id)
        if call is not None and call.channel.connection.revision.http.priming_event:
            call.channel.close_sse_stream()

    def _subscription(self, id: Any) -> Call | None:
        return self.running.get(id) if type(id) in (int, str) else None

    async def _progress(self, method: str, params: dict[str, Any]) -> None:
        id = params.get("progressToken")
        call = self.running.get(id) if isinstance(id, int) else None
        if not isinstance(id, int) or (call is None and id not in self._tokens):
            return
        params = {**params, "progressToken": self._tokens[id] if call is None else call.token}
        if call is None:
            await self.events.notified(self, method, params)
        else:
            await self.pass_notification(call.channel, method, params)

    async def pass_notification(self, channel: Channel, method: str, params: dict[str, Any]) -> None:
        """Send a notification of the upstream to a client, in the client's revision."""
        translation = self.translation
        if not translation.is_same:
            if translation.has(FROM_SERVER, method) == IGNORE:
                return
            params = translation.params(FROM_SERVER, method, params)
            method = translation.method(FROM_SERVER, method)
        sending = channel.send_notification(raw_notification(method, FROM_SERVER), params)
        await (sending if self.fan_out is None else self.fan_out.send(channel, sending))


def upstream_error(error: MCPError) -> JSONRPCError:
    """Return the error of a call whose upstream has failed: without the output of the upstream, which is logged."""
    text = str(error).partition("; its standard error")[0]
    return JSONRPCError(INTERNAL_ERROR, f"the upstream of the bridge failed: {text}")
