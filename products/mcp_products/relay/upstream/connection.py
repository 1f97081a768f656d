"""One connection to an upstream, and the requests of clients that run over it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import cached_property
from typing import Any, Final, Protocol

from mcp_runtime.aio.fan_out import FanOut
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, RemoteError, RemoteJSONRPCError, RequestTimeoutError
from mcp_runtime.protocol.connection import NotificationReceived, RequestReceived
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, Id
from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import META
from mcp_runtime.session.interfaces import Channel, RequestTransport
from mcp_runtime.session.requests import RequestOptions

from .opening import OpenUpstream
from .places import SendTurns
from .raw import FROM_CLIENT, FROM_SERVER, RawResult, raw_notification, raw_request
from .subscriptions import LogLevel, Subscriptions
from .translation import IGNORE, Translation

_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # The client sets the timeout, and cancels.
_MAX_TOKENS: Final = 1000  # Progress tokens of requests that have ended, whose work may go on as a task.
SUBSCRIPTION: Final = f"{META}subscriptionId"


class Call:
    """A request that waits for its result: its id and its method at the client, and its progress token.

    `suspended` answers the requests of the upstream that belong to it. `holds` is True if log messages belong to it.
    This class is a request of the relay itself; those of clients override what a client gets.
    """

    __slots__ = ("id", "method", "suspended", "holds", "token")

    passes_bytes = False
    """Whether a result of the same revision passes as the bytes that the upstream has written."""

    def __init__(self, id: Id, method: str, holds: bool = False) -> None:
        self.id = id
        self.method = method
        self.suspended: Any = None
        self.holds = holds
        self.token: Any = None

    @property
    def client(self) -> Hashable:
        """Who sends the request: clients take turns."""
        return None

    async def notify(self, connection: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Handle a notification of the upstream that belongs to the request."""

    def stream_closed(self) -> None:
        """Note that the upstream has closed the SSE stream of the request, which is resumed later."""


class _Listening(Call):
    """A request to listen of the relay itself."""

    __slots__ = ("_notify",)

    def __init__(self, method: str, notify: Callable[[str, dict[str, Any]], Awaitable[None]]) -> None:
        super().__init__(0, method)
        self._notify = notify

    async def notify(self, connection: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass a notification of the subscription, without its id."""
        meta = {key: value for key, value in params.get("_meta", {}).items() if key != SUBSCRIPTION}
        others = {key: value for key, value in params.items() if key != "_meta"}
        await self._notify(method, {**others, "_meta": meta} if meta else others)


class Downstream(Protocol):
    """Gets what an upstream sends besides results: the side of the clients."""

    async def notified(self, connection: UpstreamConnection, method: str, params: dict[str, Any], /) -> None:
        """Pass a notification that belongs to no request that runs."""

    async def requested(self, connection: UpstreamConnection, method: str, params: dict[str, Any], /) -> Any:
        """Return the result of a request of the upstream, as JSON in the revision of the upstream."""
        ...

    def ended(self, connection: UpstreamConnection, /) -> None:
        """Note that the upstream has ended."""


class UpstreamConnection:
    """A connection to an upstream: maps ids and progress tokens, and routes what the upstream sends.

    Attributes:
        level: The minimum level of log messages that the upstream was told.
        subscriptions: What it is asked to notify about.
        fan_out: Where clients share the connection, none that does not read may hold it.
        is_held: A request runs that messages of the upstream may belong to.
        is_abandoned: A request that messages may belong to ended before the upstream had answered it.
        give_place_back: Called once when it has ended, if it has a place.
    """

    upstream: OpenUpstream
    translation: Translation

    def __init__(self, downstream: Downstream, owner: str = "") -> None:
        """Create a connection of a user that is not open; `use` gives it the open upstream."""
        self.downstream = downstream
        self.owner = owner
        self.running: OrderedDict[Id, Call] = OrderedDict()
        self.users = 0
        self.listeners = 0
        self.is_held = False
        self.is_abandoned = False
        self.is_http = False
        self.last_used = 0.0
        self.give_place_back: Callable[[], None] | None = None
        self.fan_out: FanOut | None = None
        self.level = LogLevel(self)
        self.subscriptions = Subscriptions(self)
        self._turns = SendTurns()
        self._tokens: OrderedDict[Id, Any] = OrderedDict()

    def use(self, upstream: OpenUpstream, translation: Translation) -> None:
        """Set the open upstream."""
        self.upstream = upstream
        self.translation = translation
        self.is_http = isinstance(upstream.session.transport, RequestTransport)
        upstream.session.closed.add_done_callback(lambda _: self.downstream.ended(self))

    def share_calls_of(self, connection: UpstreamConnection) -> None:
        """Use the same tables as another view of the same connection."""
        self.running = connection.running
        self.level = connection.level
        self.subscriptions = connection.subscriptions
        self.fan_out = connection.fan_out
        self._tokens = connection._tokens
        self._turns = connection._turns

    @cached_property
    def capabilities(self) -> Capabilities:
        """The capabilities of the upstream, in the revision of the clients."""
        return self.translation.server_capabilities(self.upstream.capabilities)

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
        """Close the connection, and end what waits for it."""
        try:
            await self.subscriptions.close()
            await self.level.close()
            await self.upstream.close()
        finally:
            self.free_place()

    def free_place(self) -> None:
        """Give the place of the connection back, if it has one."""
        if self.give_place_back is not None:
            self.give_place_back()

    # ---- to the upstream ---------------------------------------------------------------------------------------------

    async def send(self, call: Call, params: dict[str, Any], seconds: float | None = None) -> Any:
        """Send the request of a call, with these params, and return its result as it is.

        Raises AnsweredError for an error of the upstream, and JSONRPCError if there is no answer.
        """
        session, method = self.upstream.session, call.method
        id = session.connection.next_id()
        meta = params.get("_meta")
        if meta is not None and is_object(meta) and "progressToken" in meta:
            call.token = meta["progressToken"]
            params = {**params, "_meta": {**meta, "progressToken": id}}
            self._tokens[id] = call.token
            if len(self._tokens) > _MAX_TOKENS:
                self._tokens.popitem(last=False)
        self.running[id] = call
        as_bytes = call.passes_bytes and self.translation.is_same
        row = raw_request(self.translation.method(FROM_CLIENT, method), FROM_CLIENT, as_bytes)
        options = _NO_TIMEOUT if seconds is None else RequestOptions(timeout=seconds)
        try:
            if self.fan_out is not None and not getattr(session.transport, "has_room", True):
                # Large requests of another client may wait for the upstream to read.
                await self._turns.take(call.client, session.transport.drain)
            result: Any = await session.send_request(row, params, options, request_id=id)
        except RemoteJSONRPCError as error:
            raise self.translation.error(FROM_CLIENT, method, error) from error
        except asyncio.CancelledError:
            self.is_abandoned = self.is_abandoned or self.is_held
            raise
        except RequestTimeoutError as error:
            self.is_abandoned = self.is_abandoned or self.is_held
            raise JSONRPCError(INTERNAL_ERROR, str(error)) from None
        except (ConnectionClosedError, RemoteError) as error:
            failure = self.upstream.names.failure(error)
            failure.is_outage = failure.is_outage and not self.upstream.is_closing
            raise failure from error
        finally:
            self.running.pop(id, None)
            self.touch()
        return result if type(result) is bytes else result.value if type(result) is RawResult else None

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request of the relay itself, in the revision of the upstream. Raises JSONRPCError."""
        return await self.send(Call(0, method), params)

    async def listen(
        self, method: str, params: dict[str, Any], notify: Callable[[str, dict[str, Any]], Awaitable[None]]
    ) -> Any:
        """Send a request to listen, whose notifications go to `notify`, and wait for its end. Raises JSONRPCError."""
        return await self.send(_Listening(method, notify), params)

    async def notify_upstream(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification, in the revision of the upstream. Raises MCPError."""
        await self.upstream.session.send_notification(raw_notification(method, FROM_CLIENT), params)

    # ---- from the upstream -------------------------------------------------------------------------------------------

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Handle a message of the upstream."""
        method = message.row.method
        if isinstance(message, RequestReceived):
            if message.row is channel.connection.receivable.get(method):
                return {}  # A ping.
            return await self.downstream.requested(self, method, message.params)
        lifecycle = channel.connection.revision.lifecycle
        if method == lifecycle.cancelled.method or not hasattr(self, "translation"):
            return None
        params = message.params if is_object(message.params) else message.params.model_dump()
        if method == lifecycle.progress.method:
            return await self._progress(method, params)
        meta = params.get("_meta")
        meta = meta if is_object(meta) else {}
        id: Any = meta.get(SUBSCRIPTION)
        if type(id) in (int, str) and (call := self.running.get(id)) is not None:
            params = {**params, "_meta": {**meta, SUBSCRIPTION: call.id}}
            return await call.notify(self, method, params)
        await self.downstream.notified(self, method, params)

    def stream_closed(self, id: Id) -> None:
        """Close the stream of the client too, which resumes it later: the upstream holds no connection until then."""
        if (call := self.running.get(id)) is not None:
            call.stream_closed()

    async def _progress(self, method: str, params: dict[str, Any]) -> None:
        id = params.get("progressToken")
        call = self.running.get(id) if isinstance(id, int) else None
        if call is not None:
            await call.notify(self, method, {**params, "progressToken": call.token})
        elif isinstance(id, int) and id in self._tokens:
            await self.downstream.notified(self, method, {**params, "progressToken": self._tokens[id]})

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
