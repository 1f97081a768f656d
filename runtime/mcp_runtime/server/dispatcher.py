"""The dispatcher of a server: calls a handler for each message of one client, and handles the lifecycle itself."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from ..endpoint.base import Handler
from ..endpoint.context import LEVELS
from ..endpoint.subscription_filter import filter_of, supported_filter
from ..errors import JSONRPCError
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.lifecycle import stored_client_info
from ..protocol.models import PreSerialized, is_object, plain_of
from ..protocol.revision import META, Handshake, Notification, Request, Sent, Stateless
from ..protocol.wire.core_records import make_result, may_require_input, pre_serialized, property_names, result_type
from ..session.current_request import FORWARDING, set_current_request
from ..session.interfaces import DEFAULT_STREAM_LIMITS, Candidate, Channel, StreamLimits
from ..session.tracing import OPENTELEMETRY, handle_in_trace, is_traced
from .clients import client_of
from .context import ConnectionState, ServerContext
from .core import ServerCore
from .input_requests import InputRequired, MultiRoundTripRequest, check_input_required, require_client_capabilities
from .limits import check_rate, check_scopes
from .server_info import info_for
from .subscriptions import ListenStream, ListenStreams, ResourceSubscriptions, SubscriptionPolicy, check_filter

if TYPE_CHECKING:
    from pydantic import BaseModel

NO_CACHE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class ServerDispatcher(ConnectionState):
    """Handle the messages of one client with the server of the protocol version that was negotiated."""

    __slots__ = (
        "_candidates", "_server", "_session", "_resource_subscriptions", "_listen_streams", "_initialize_result",
        "_stream_limits",
    )  # fmt: skip

    def __init__(
        self,
        candidates: Sequence[Candidate[ServerCore]],
        server: ServerCore,
        state: Any,
        stream_limits: StreamLimits = DEFAULT_STREAM_LIMITS,
    ) -> None:
        """Create the dispatcher of a new connection.

        Args:
            candidates: The servers of all protocol versions that the client may negotiate.
            server: The server that handles messages until a version is negotiated.
            state: The value that the server's `lifespan` yielded.
            stream_limits: How many streams of subscriptions a client may have open.
        """
        super().__init__(state, LEVELS[0] if isinstance(server.revision.lifecycle, Handshake) else None)
        self._candidates = candidates
        self._server = server
        # Few clients need these, and there may be very many clients: they are created on first use.
        self._session: Channel | None = None
        self._resource_subscriptions: ResourceSubscriptions | None = None
        self._listen_streams: ListenStreams | None = None
        self._stream_limits = stream_limits
        self._initialize_result: Any = None

    def attach(self, channel: Channel) -> None:
        """Set the session that change notifications are sent over, once the connection is initialized."""
        self._session = channel

    @property
    def session_channel(self) -> Channel | None:
        """The channel of the session; None without one, and until the connection is initialized."""
        return self._session

    def detach(self) -> None:
        """Stop sending change notifications, and end the open listen streams."""
        self._server._subscription_bus.unsubscribe(self)  # pyright: ignore[reportPrivateUsage]
        if self._listen_streams is not None:
            self._listen_streams.end()
        callbacks = self.on_detach
        self.on_detach = ()
        for callback in callbacks:
            callback()

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs of the resources that the client has subscribed to."""
        return () if self._resource_subscriptions is None else self._resource_subscriptions.uris

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True for every change, except those of resources that the client has not subscribed to, or that a rule
        hides from it by now."""
        if "uri" not in params:
            return True
        if self._resource_subscriptions is None or params["uri"] not in self._resource_subscriptions:
            return False
        return self._session is None or not self._hides(self._session, params)

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Send the notification to the client."""
        if self._session is not None:
            await self._session.send_notification(row, params)

    def _hides(self, channel: Channel, params: Mapping[str, Any]) -> bool:
        """Return True for the change of a resource that a rule hides from the client."""
        hides = self.origin._hides_change  # pyright: ignore[reportPrivateUsage]
        return hides is not None and "uri" in params and hides(self, channel, params["uri"])

    @property
    def is_stateless(self) -> bool:
        """True if a stateless protocol version is used."""
        return isinstance(self._server.revision.lifecycle, Stateless)

    async def notify_lists_changed(self, lists: Iterable[str]) -> None:
        """Notify the client that some of its lists have changed; without sessions, notify all subscribed clients."""
        for name in lists:
            declared = self._server.capabilities.get(name)
            if not (is_object(declared) and declared.get("listChanged")):
                continue
            handler = f"on_{name[:-1]}_list_changed"
            rows = self._server.revision.table("server_to_client").values()
            row = next((row for row in rows if row.name == handler and isinstance(row, Notification)), None)
            if row is not None and self.is_stateless:
                await self.origin._announce(row, {}, None)  # pyright: ignore[reportPrivateUsage]
            elif row is not None:
                await self.notify(row, {})

    def handle(
        self, channel: Channel, message: RequestReceived | NotificationReceived, traced: bool = False
    ) -> Coroutine[Any, Any, Any]:
        """Return an awaitable of the result of a message.

        Args:
            channel: The channel for messages to the client.
            message: The request or notification.
            traced: Whether the message is handled in a tracing span already.
        """
        if OPENTELEMETRY in sys.modules and not traced and is_traced(message):
            return handle_in_trace(partial(self.handle, traced=True), channel, message)
        server = self._server
        if FORWARDING.is_on:
            set_current_request(partial(server.context, self, channel, message))
        handler = server._feature_handlers.get(message.row.method)  # pyright: ignore[reportPrivateUsage]
        if handler is None:
            return self._handle(channel, message)
        if isinstance(message, RequestReceived) and (
            type(server.revision.lifecycle) is Stateless or may_require_input(message.row)
        ):
            return self._run_handler(handler, channel, message)
        result: Coroutine[Any, Any, Any] = handler(server.context(self, channel, message), message.params)
        return result

    __call__ = handle  # See `session.serving.handler_of`.

    async def _handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message of the lifecycle, or of one that has no handler."""
        lifecycle = self._server.revision.lifecycle
        if isinstance(lifecycle, Stateless) and message.row.method == lifecycle.listen.method:
            check_filter(filter_of(message.params))  # Before rules look at each of the things that it lists.
        around = self.origin._around  # pyright: ignore[reportPrivateUsage]
        if around is None:
            return await self._handle_itself(channel, message)

        async def handler(ctx: ServerContext, params: Any) -> Any:
            return await self._handle_itself(channel, message)

        return await around(message.row.name, self._server.context(self, channel, message), message.params, handler)

    async def _handle_itself(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        server, row = self._server, message.row
        if isinstance(message, NotificationReceived):
            return None
        if self._initialize_result is not None:
            result = self._initialize_result
            self._initialize_result = None
            return result
        lifecycle = server.revision.lifecycle
        if row.method not in server._handlers:  # pyright: ignore[reportPrivateUsage]
            await self._count(channel, message)
        if isinstance(lifecycle, Stateless):
            if message.params.meta.protocol_version != server.revision.id:
                raise self._reject_version(message)
            if row is lifecycle.discover:
                return self._discover_result(message.row)
            if row is lifecycle.listen:
                return await self._listen(channel, message, lifecycle)
        elif row.method == lifecycle.ping_request.method:
            return pre_serialized(make_result(message.row, {}))
        elif lifecycle.set_level is not None and row.method == lifecycle.set_level.method:
            self.log_level = message.params.level
        elif lifecycle.subscribe is not None and row.method == lifecycle.subscribe.method:
            self._resource_subscriptions = self._resource_subscriptions or ResourceSubscriptions()
            self._resource_subscriptions.check(message.params.uri)
        handler = server._handlers.get(row.method)  # pyright: ignore[reportPrivateUsage]
        if handler is not None:
            result = await handler(server.context(self, channel, message), message.params)
        elif self._is_handled_by_runtime(row):
            check_scopes(server.context(self, channel, message), self.origin.scopes, message)
            result = pre_serialized(make_result(message.row, {}))
        else:
            raise server._not_handled(row)  # pyright: ignore[reportPrivateUsage]
        if isinstance(lifecycle, Handshake):
            self._track_resource_subscription(lifecycle, message)
        return result

    async def _count(self, channel: Channel, request: RequestReceived) -> None:
        """Count a request that the runtime handles. Raises JSONRPCError above the rate of its client.

        To subscribe is one thing in all versions, whatever the request is.
        """
        server, rates = self._server, self.origin.client_rates
        lifecycle, newest = server.revision.lifecycle, self.origin.revision.lifecycle
        name = request.row.name
        subscribe = getattr(lifecycle, "subscribe", None)
        if subscribe is not None and name == subscribe.name and isinstance(newest, Stateless):
            name = newest.listen.name
        if (rate := rates.get(name)) is not None:
            await check_rate(rate, request.row.method, server.context(self, channel, request))

    async def _run_handler(self, handler: Handler, channel: Channel, request: RequestReceived) -> Any:
        """Return the result of a request; if it has interim results with input requests, those of its handler are sent
        in one.

        See https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
        """
        server = self._server
        is_stateless = type(server.revision.lifecycle) is Stateless
        if is_stateless and request.params.meta.protocol_version != server.revision.id:
            raise self._reject_version(request)
        if not may_require_input(request.row):
            result = await handler(server.context(self, channel, request), request.params)
        else:
            mrtr = MultiRoundTripRequest(channel, request, self)
            ctx = server.context(self, mrtr, request)
            ctx._mrtr = mrtr  # pyright: ignore[reportPrivateUsage]
            try:
                result = await handler(ctx, request.params)
            except (InputRequired, BaseExceptionGroup) as error:
                result = mrtr.input_required_result(error)
        if type(result) is not PreSerialized and type(result) is not request.row.result:
            check_input_required(server.revision, self.request_context(channel, request).capabilities, result)
        return result

    @property
    def origin(self) -> ServerCore:
        """The server object that the user wrote."""
        return self._server._origin  # pyright: ignore[reportPrivateUsage]

    def request_context(self, channel: Channel, request: RequestReceived) -> ServerContext:
        """Return a context that sends requests over `channel` itself, not as input requests of a result."""
        return self._server.context(self, channel, request)

    def _is_handled_by_runtime(self, row: Sent) -> bool:
        """Return True for requests that need no handler, because the dispatcher has the state they are about."""
        lifecycle = self._server.revision.lifecycle
        if not isinstance(lifecycle, Handshake):
            return False
        lifecycle_rows = (lifecycle.set_level, lifecycle.subscribe, lifecycle.unsubscribe)
        return row.method in {lifecycle_row.method for lifecycle_row in lifecycle_rows if lifecycle_row is not None}

    def _track_resource_subscription(
        self, lifecycle: Handshake, message: RequestReceived | NotificationReceived
    ) -> None:
        if self._resource_subscriptions is None:
            return
        if lifecycle.subscribe is not None and message.row.method == lifecycle.subscribe.method:
            self._resource_subscriptions.add(message.params.uri)
        elif lifecycle.unsubscribe is not None and message.row.method == lifecycle.unsubscribe.method:
            self._resource_subscriptions.discard(message.params.uri)

    async def _listen(self, channel: Channel, request: RequestReceived, lifecycle: Stateless) -> BaseModel:
        """Send change notifications until the client or the server ends the stream, then return the result."""
        server = self._server
        ctx = server.context(self, channel, request)
        check_scopes(ctx, self.origin.scopes, request)
        accepted = await accept_filter(server, ctx, request)
        stream = ListenStream(channel, request, accepted, partial(self._hides, channel))
        request.params = None  # A stream may be open for days, and the filter is all it needs of the params.
        streams = self._listen_streams = self._listen_streams or ListenStreams(self._stream_limits)
        streams.add(stream, client_of(ctx))
        bus = server._subscription_bus  # pyright: ignore[reportPrivateUsage]
        try:
            await stream.run(bus, lifecycle, channel.auth.expires_in if channel.auth else None)
        finally:
            streams.discard(stream)
        return request.row.read_result({"resultType": "complete", "_meta": {**self._server_info_meta(), **stream.meta}})

    def stamp_server_info(self, connection: Connection) -> None:
        """Add `serverInfo` to the `_meta` of every result of a stateless protocol version."""
        if isinstance(connection.revision.lifecycle, Stateless):
            connection.result_meta = to_json(self._server_info_meta())

    def _server_info_meta(self) -> dict[str, Any]:
        return {f"{META}serverInfo": self._server.info}

    def _reject_version(self, request: RequestReceived) -> JSONRPCError:
        """Return the error for a request of an unsupported protocol version; its data lists the supported ones."""
        requested = request.params.meta.protocol_version
        data = {"supported": self._stateless_ids(), "requested": requested}
        code = int(self._server.revision.constants["UNSUPPORTED_PROTOCOL_VERSION"])
        return JSONRPCError(code, f"unsupported protocol version {requested!r}", data)

    def _stateless_ids(self) -> list[str]:
        return [candidate.revision_id for candidate in self._candidates if not candidate.stateful]

    def _discover_result(self, row: Request[Any]) -> Any:
        server = self._server
        fields: dict[str, Any] = {
            **NO_CACHE,
            "supportedVersions": self._stateless_ids(),
            "capabilities": server.capabilities,
            "_meta": self._server_info_meta(),
        }
        if "serverInfo" in property_names(result_type(row)):  # Drafts have it as a property of the result.
            fields["serverInfo"] = info_for(result_type(row), "serverInfo", server.info)
        if self.origin.instructions is not None:
            fields["instructions"] = self.origin.instructions
        result = make_result(row, fields)
        cache_hint = self.origin.cache_hints.get(row.name)
        return pre_serialized(result if cache_hint is None else result.model_copy(update=cache_hint.fields()))

    def initialize(self, connection: Connection, request: RequestReceived) -> Any:
        """Negotiate the protocol version, and return the result of `initialize`.

        Return None if the server has something around its handler: then `handle` returns the result.
        """
        result = self._initialize(connection, request)
        if self.origin._around is None:  # pyright: ignore[reportPrivateUsage]
            return result
        self._initialize_result = result
        return None

    def _initialize(self, connection: Connection, request: RequestReceived) -> Any:
        """Return the result of `initialize`, and use the negotiated protocol version from now on.

        It is the version that the client requests, or the newest of this server if it does not support that. See
        https://modelcontextprotocol.io/specification/draft/basic/lifecycle#version-negotiation
        """
        lifecycle = connection.revision.lifecycle
        assert isinstance(lifecycle, Handshake), "only a handshake lifecycle has an initialize request"
        params, names = plain_of(request.params), lifecycle.fields
        requested = params[names.version]
        server = next(
            (
                candidate.get()
                for candidate in self._candidates
                if candidate.revision_id == requested and candidate.stateful
            ),
            self._server,
        )
        self._server = server
        server._subscription_bus.subscribe(self)  # pyright: ignore[reportPrivateUsage]
        self.client_info = stored_client_info(params[names.client_info])
        connection.local_capabilities = server.capabilities
        connection.read_params = type(server)._read_params  # pyright: ignore[reportPrivateUsage]
        connection.negotiated(server.revision, params[names.client_capabilities])
        row = server.revision.table("client_to_server")[request.row.method]
        assert isinstance(row, Request), "initialize is a request"
        fields: dict[str, Any] = {
            names.version: server.revision.id,
            names.server_capabilities: server.capabilities,
            names.server_info: info_for(result_type(row), names.server_info, server.info),
            **{name: server.initialize_extras.get(name, {}) for name in names.required_objects},
        }
        if self.origin.instructions is not None:
            fields["instructions"] = self.origin.instructions
        return pre_serialized(make_result(request.row, fields))


async def accept_filter(server: ServerCore, ctx: ServerContext, request: RequestReceived) -> dict[str, Any]:
    """Return the part of the requested filter that the server accepts.

    Raises JSONRPCError if the filter needs a capability that the client has not declared.
    """
    rows = [row for row in server.revision.table("server_to_client").values() if isinstance(row, Notification)]
    accepted = supported_filter(filter_of(request.params), server.capabilities, rows)
    policy = server._origin  # pyright: ignore[reportPrivateUsage]
    for row in rows:
        if row.listed is not None and (name := row.listed[0]) in accepted:
            require_client_capabilities(
                server.revision, ctx.capabilities, [f"client{row.capability.removeprefix('server')}"]
            )
            if isinstance(policy, SubscriptionPolicy):
                accepted[name] = await policy.filter_subscriptions(ctx, row, accepted[name])
    return accepted
