"""A server of one protocol version, as transports drive it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from ..endpoint.base import Handler, not_handled, own_params
from ..endpoint.checks import filter_of, supported_filter
from ..endpoint.context import LEVELS
from ..errors import JSONRPCError
from ..protocol.connection import Connection, NotificationReceived, RequestReceived
from ..protocol.lifecycle import Capabilities, stored_client_info
from ..protocol.models import PreSerialized, is_object, plain_of
from ..protocol.records import make_result, records
from ..protocol.revision import COMPLETE, META, RESULT_TYPE, Handshake, Notification, Request, Revision, Sent, Stateless
from ..session.instruments import OPENTELEMETRY, instruments, report_left_out
from ..session.interfaces import (
    DEFAULT_STREAM_LIMITS,
    FORWARDING,
    Candidate,
    Channel,
    Dispatcher,
    Service,
    StreamLimits,
    set_current_request,
)
from ..session.serving import RunsInThread
from .context import ConnectionState, ServerContext
from .core import ServerCore, info_for
from .input_requests import InputRequired, MultiRoundTripRequest, check_input_required, require_client_capabilities
from .limits import check_rate, check_scopes, client_of
from .subscriptions import ListenStream, ListenStreams, ResourceSubscriptions, SubscriptionPolicy, check_filter

if TYPE_CHECKING:
    from pydantic import BaseModel


# The dispatcher of a server: calls a handler for each message of one client, and handles the lifecycle itself.

NO_CACHE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_CALLS: Final = logging.getLogger("mcp_runtime.server.calls")


class ServerDispatcher(ConnectionState):
    """Handle the messages of one client with the server of the protocol version that was negotiated."""

    __slots__ = (
        "candidates", "parts", "subscribed", "_session", "_listen_streams", "_initialize_result",
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
        self.candidates = candidates
        self.parts = server.parts
        # Few clients need these, and there may be very many clients: they are created on first use.
        self._session: Channel | None = None
        self.subscribed: ResourceSubscriptions | None = None
        self._listen_streams: ListenStreams | None = None
        self._stream_limits = stream_limits
        self._initialize_result: Any = None

    @property
    def server(self) -> ServerCore:
        """The server that handles messages now."""
        return self.parts.server

    def attach(self, channel: Channel) -> None:
        """Set the session that change notifications are sent over, once the connection is initialized."""
        self._session = channel

    @property
    def session_channel(self) -> Channel | None:
        """The channel of the session; None without one, and until the connection is initialized."""
        return self._session

    def detach(self) -> None:
        """Stop sending change notifications, and end the open listen streams."""
        self.server.parts.bus.unsubscribe(self)
        if self._listen_streams is not None:
            self._listen_streams.end()

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs of the resources that the client has subscribed to."""
        return () if self.subscribed is None else self.subscribed.uris

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True for every change, except those of resources that the client has not subscribed to, or that a rule
        hides from it by now."""
        if "uri" not in params:
            return True
        if self.subscribed is None or params["uri"] not in self.subscribed:
            return False
        return self._session is None or not self._hides(self._session, params)

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Send the notification to the client; without sessions, to the clients of this dispatcher that listen."""
        if not self.is_stateless and self._session is not None:
            await self._session.send_notification(row, params)
        elif self._listen_streams is not None:
            await self._listen_streams.bus.deliver(row, params)

    def _hides(self, channel: Channel, params: Mapping[str, Any]) -> bool:
        """Return True for the change of a resource that a rule hides from the client."""
        hides = self.origin.parts.hides_change
        return hides is not None and "uri" in params and hides(self, channel, params["uri"])

    @property
    def is_stateless(self) -> bool:
        """True if a stateless protocol version is used."""
        return isinstance(self.server.revision.lifecycle, Stateless)

    async def notify_lists_changed(self, lists: Iterable[str]) -> None:
        """Notify the client that some of its lists have changed; without sessions, the clients of this dispatcher."""
        for name in lists:
            declared = self.server.capabilities.get(name)
            if not (is_object(declared) and declared.get("listChanged")):
                continue
            handler = f"on_{name[:-1]}_list_changed"
            rows = self.server.revision.table("server_to_client").values()
            row = next((row for row in rows if row.name == handler and isinstance(row, Notification)), None)
            if row is not None:
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
        if OPENTELEMETRY in sys.modules and not traced and (watching := instruments()).is_traced(message):
            return watching.handle_in_trace(partial(self.handle, traced=True), channel, message)
        parts = self.parts
        if FORWARDING.is_on:
            set_current_request(partial(parts.context, self, channel, message))
        handler = parts.feature_handlers.get(message.row.method)
        if handler is None:
            return self._handle(channel, message)
        if isinstance(message, RequestReceived) and (
            type(parts.revision.lifecycle) is Stateless or parts.may_require_input(message.row)
        ):
            return self._run_handler(handler, channel, message)
        result: Coroutine[Any, Any, Any] = handler(parts.context(self, channel, message), message.params)
        return result

    __call__ = handle  # See `session.serving.handler_of`.

    async def _handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message of the lifecycle, or of one that has no handler."""
        lifecycle = self.server.revision.lifecycle
        if isinstance(lifecycle, Stateless) and message.row.method == lifecycle.listen.method:
            check_filter(filter_of(message.params))  # Before rules look at each of the things that it lists.
        around = self.origin.parts.around
        if around is None:
            return await self._handle_itself(channel, message)

        async def handler(ctx: ServerContext, params: Any) -> Any:
            del params  # A stream of subscriptions may be open for days.
            return await self._handle_itself(channel, message)

        return await around(message.row.name, self.server.context(self, channel, message), message.params, handler)

    async def _handle_itself(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        server, row = self.server, message.row
        if isinstance(message, NotificationReceived):
            return await self._handle_own(channel, message) if row.is_own else None
        if self._initialize_result is not None:
            result = self._initialize_result
            self._initialize_result = None
            return result
        lifecycle = server.revision.lifecycle
        if row.method not in server.parts.handlers:
            await self._count(channel, message)
        if isinstance(lifecycle, Stateless):
            if message.params.meta.protocol_version != server.revision.id:
                raise self._reject_version(message)
            if row is lifecycle.discover:
                return self._discover_result(message.row)
            if row is lifecycle.listen:
                return await self._listen(channel, message, lifecycle)
        elif row.method == lifecycle.ping_request.method:
            return records().pre_serialized(make_result(message.row, {}))
        elif lifecycle.set_level is not None and row.method == lifecycle.set_level.method:
            self.log_level = message.params.level
        elif lifecycle.subscribe is not None and row.method == lifecycle.subscribe.method:
            self.subscribed = self.subscribed or ResourceSubscriptions()
            self.subscribed.check(message.params.uri)
        handler = server.parts.handlers.get(row.method)
        if handler is not None:
            result = await handler(server.context(self, channel, message), message.params)
        elif self._is_handled_by_runtime(row):
            check_scopes(server.context(self, channel, message), self.origin.scopes, message)
            result = records().pre_serialized(make_result(message.row, {}))
        else:
            if not row.is_own:
                raise not_handled(row, server.revision)
            result = await self._handle_own(channel, message)
        if isinstance(lifecycle, Handshake):
            self._track_resource_subscription(lifecycle, message)
        return result

    async def _handle_own(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message that the protocol does not have: the object that its handler returns."""
        ctx, origin, row = self.server.own_context(self, channel, message), self.origin, message.row
        check_scopes(ctx, origin.scopes, message)
        result = await origin.parts.own[row.method, type(row)](ctx, own_params(message.params))
        if isinstance(message, NotificationReceived):
            return None
        return PreSerialized({RESULT_TYPE: COMPLETE, **result} if self.is_stateless else result)

    async def _count(self, channel: Channel, request: RequestReceived) -> None:
        """Count a request that the runtime handles. Raises JSONRPCError above the rate of its client.

        To subscribe is one thing in all versions, whatever the request is.
        """
        server, rates = self.server, self.origin.client_rates
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
        parts = self.parts
        revision = parts.revision
        if type(revision.lifecycle) is Stateless and request.params.meta.protocol_version != revision.id:
            raise self._reject_version(request)
        if not parts.may_require_input(request.row):
            result = await handler(parts.context(self, channel, request), request.params)
        else:
            mrtr = MultiRoundTripRequest(channel, request, self)
            ctx = parts.context(self, mrtr, request)
            ctx.multi_round_trip = mrtr
            try:
                result = await handler(ctx, request.params)
            except (InputRequired, BaseExceptionGroup) as error:
                result = mrtr.input_required_result(error)
        if type(result) is not PreSerialized and type(result) is not request.row.result:
            check_input_required(revision, self.request_context(channel, request).capabilities, result)
        return result

    @property
    def origin(self) -> ServerCore:
        """The server object that the user wrote."""
        return self.server.parts.origin

    def request_context(self, channel: Channel, request: RequestReceived) -> ServerContext:
        """Return a context that sends requests over `channel` itself, not as input requests of a result."""
        return self.server.context(self, channel, request)

    def _is_handled_by_runtime(self, row: Sent) -> bool:
        """Return True for requests that need no handler, because the dispatcher has the state they are about."""
        lifecycle = self.server.revision.lifecycle
        if not isinstance(lifecycle, Handshake):
            return False
        lifecycle_rows = (lifecycle.set_level, lifecycle.subscribe, lifecycle.unsubscribe)
        return row.method in {lifecycle_row.method for lifecycle_row in lifecycle_rows if lifecycle_row is not None}

    def _track_resource_subscription(
        self, lifecycle: Handshake, message: RequestReceived | NotificationReceived
    ) -> None:
        if self.subscribed is None:
            return
        if lifecycle.subscribe is not None and message.row.method == lifecycle.subscribe.method:
            self.subscribed.add(message.params.uri)
        elif lifecycle.unsubscribe is not None and message.row.method == lifecycle.unsubscribe.method:
            self.subscribed.discard(message.params.uri)

    async def _listen(self, channel: Channel, request: RequestReceived, lifecycle: Stateless) -> BaseModel:
        """Send change notifications until the client or the server ends the stream, then return the result."""
        server = self.server
        ctx = server.context(self, channel, request)
        check_scopes(ctx, self.origin.scopes, request)
        accepted = await accept_filter(server, ctx, request)
        stream = ListenStream(channel, request, accepted, partial(self._hides, channel))
        request.params = None  # A stream may be open for days, and the filter is all it needs of the params.
        streams = self._listen_streams = self._listen_streams or ListenStreams(self._stream_limits)
        streams.add(stream, client_of(ctx))
        buses = server.parts.bus, streams.bus
        try:
            await stream.run(buses, lifecycle, channel.auth.expires_in if channel.auth else None)
        finally:
            streams.discard(stream)
        return request.row.read_result({"resultType": "complete", "_meta": {**self._server_info_meta(), **stream.meta}})

    def stamp_server_info(self, connection: Connection) -> None:
        """Add `serverInfo` to the `_meta` of every result of a stateless protocol version."""
        if isinstance(connection.revision.lifecycle, Stateless):
            connection.result_meta = to_json(self._server_info_meta())

    def _server_info_meta(self) -> dict[str, Any]:
        return {f"{META}serverInfo": self.server.info}

    def _reject_version(self, request: RequestReceived) -> JSONRPCError:
        """Return the error for a request of an unsupported protocol version; its data lists the supported ones."""
        requested = request.params.meta.protocol_version
        data = {"supported": self._stateless_ids(), "requested": requested}
        code = int(self.server.revision.constants["UNSUPPORTED_PROTOCOL_VERSION"])
        return JSONRPCError(code, f"unsupported protocol version {requested!r}", data)

    def _stateless_ids(self) -> list[str]:
        return [candidate.revision_id for candidate in self.candidates if not candidate.stateful]

    def _discover_result(self, row: Request[Any]) -> Any:
        server = self.server
        fields: dict[str, Any] = {
            **NO_CACHE,
            "supportedVersions": self._stateless_ids(),
            "capabilities": server.capabilities,
            "_meta": self._server_info_meta(),
        }
        shape = records().result_type(row)
        if "serverInfo" in records().property_names(shape):  # Drafts have it as a property of the result.
            fields["serverInfo"] = info_for(shape, "serverInfo", server.info)
        if self.origin.instructions is not None:
            fields["instructions"] = self.origin.instructions
        result = make_result(row, fields)
        cache_hint = self.origin.cache_hints.get(row.name)
        return records().pre_serialized(result if cache_hint is None else result.model_copy(update=cache_hint.fields()))

    def initialize(self, connection: Connection, request: RequestReceived) -> Any:
        """Negotiate the protocol version, and return the result of `initialize`.

        Return None if the server has something around its handler: then `handle` returns the result.
        """
        result = self._initialize(connection, request)
        if self.origin.parts.around is None:
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
        same = (item for item in self.candidates if item.revision_id == requested and item.stateful)
        server = self.server if (candidate := next(same, None)) is None else candidate.get()
        self.parts = server.parts
        server.parts.bus.subscribe(self)
        self.client_info = stored_client_info(params[names.client_info])
        connection.local_capabilities = server.capabilities
        connection.read_params = server.parts.read_params
        connection.negotiated(server.revision, params[names.client_capabilities])
        row = server.revision.table("client_to_server")[request.row.method]
        assert isinstance(row, Request), "initialize is a request"
        fields: dict[str, Any] = {
            names.version: server.revision.id,
            names.server_capabilities: server.capabilities,
            names.server_info: info_for(records().result_type(row), names.server_info, server.info),
            **{name: server.initialize_extras.get(name, {}) for name in names.required_objects},
        }
        if self.origin.instructions is not None:
            fields["instructions"] = self.origin.instructions
        return records().pre_serialized(make_result(request.row, fields))


async def accept_filter(server: ServerCore, ctx: ServerContext, request: RequestReceived) -> dict[str, Any]:
    """Return the part of the requested filter that the server accepts.

    Raises JSONRPCError if the filter needs a capability that the client has not declared.
    """
    rows = [row for row in server.revision.table("server_to_client").values() if isinstance(row, Notification)]
    accepted = supported_filter(filter_of(request.params), server.capabilities, rows)
    policy = server.parts.origin
    for row in rows:
        if row.listed is not None and (name := row.listed[0]) in accepted:
            require_client_capabilities(
                server.revision, ctx.capabilities, [f"client{row.capability.removeprefix('server')}"]
            )
            if isinstance(policy, SubscriptionPolicy):
                accepted[name] = await policy.filter_subscriptions(ctx, row, accepted[name])
    return accepted


class ServerService:
    """A server of one protocol version, which makes a dispatcher for each connection."""

    def __init__(self, server: ServerCore, candidates: Sequence[Candidate[ServerCore]]) -> None:
        """Create the service of a server; `candidates` are the servers of all protocol versions that a client may
        negotiate."""
        self._server = server
        self._candidates = candidates
        self.stream_limits: StreamLimits = DEFAULT_STREAM_LIMITS

    @property
    def revision(self) -> Revision:
        """The protocol version of the server."""
        return self._server.revision

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the server declares."""
        return self._server.capabilities

    @property
    def origin(self) -> object:
        """The server object that the user wrote: the same for the services of all protocol versions."""
        return self._server.parts.origin

    @property
    def runs_in_thread(self) -> RunsInThread | None:
        """Whether a request runs code of users in a worker thread only; None if none does."""
        return self._server.parts.origin.parts.runs_in_thread

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        """Return the lifespan of the server."""
        return self._server.lifespan()

    def connection(self) -> Connection:
        """Return the server's side of a new connection."""
        self._server.connected()
        connection = Connection(self.revision, "server", local_capabilities=self.capabilities)
        connection.read_params = self._server.parts.read_params
        connection.report_left_out = report_left_out
        connection.own = self._server.parts.origin.parts.own
        return connection

    def dispatcher(self, state: Any) -> Dispatcher:
        """Return the dispatcher of a new connection; `state` is the value that the lifespan yielded."""
        parts = self._server.parts.origin.parts
        dispatcher: Dispatcher = ServerDispatcher(self._candidates, self._server, state, self.stream_limits)
        if parts.tenant is not None:
            dispatcher = parts.tenant.around_dispatch(dispatcher)
        return instruments(_CALLS).around_dispatch(dispatcher, parts.store is None)


def service_candidates(candidates: Sequence[Candidate[ServerCore]]) -> list[Candidate[Service]]:
    """Return a service for each candidate, made when a connection first needs it."""
    return [
        Candidate(candidate.revision_id, candidate.stateful, partial(_service, candidate, candidates))
        for candidate in candidates
    ]


def _service(candidate: Candidate[ServerCore], candidates: Sequence[Candidate[ServerCore]]) -> Service:
    return ServerService(candidate.get(), candidates)
