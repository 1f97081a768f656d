"""What one client says goes in, and the answers come out: of its server's handlers, or the runtime's own."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_json

from ..endpoint.base import Handler
from ..endpoint.context import LEVELS
from ..endpoint.subscription_filter import filter_of, supported_filter
from ..errors import JSONRPCError
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.revision import META, Handshake, Notification, Request, Sent, Stateless
from ..session.interfaces import Candidate, Channel
from ..session.tracing import handle_in_trace, is_tracing
from .context import ConnectionState, ServerContext
from .core import ServerCore
from .input_requests import (
    InputRequired,
    MultiRoundTripRequest,
    check_input_required,
    require_client_capabilities,
)
from .limits import check_scopes
from .subscriptions import (
    MAX_SUBSCRIBED_RESOURCES,
    ListenStream,
    ResourceSubscriptions,
    SubscriptionPolicy,
)

NO_CACHE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class ServerDispatcher(ConnectionState):
    """Handle the messages of one client with the server of the protocol version that was negotiated."""

    __slots__ = ("_candidates", "_server", "_session", "_resource_subscriptions", "_listen_streams")

    def __init__(self, candidates: Sequence[Candidate[ServerCore]], server: ServerCore, state: Any) -> None:
        super().__init__(state, LEVELS[0] if isinstance(server.revision.lifecycle, Handshake) else None)
        self._candidates = candidates
        self._server = server
        # Most clients need none of these, and there may be very many clients.
        self._session: Channel | None = None
        self._resource_subscriptions: ResourceSubscriptions | None = None
        self._listen_streams: set[ListenStream] | None = None

    def attach(self, channel: Channel) -> None:
        """The client of this session hears of changes, once the conversation is open."""
        self._session = channel

    def detach(self) -> None:
        """The client hears of nothing any more; who listens is told that this is the end."""
        self._server.subscription_bus.unsubscribe(self)
        for listener in self._listen_streams or ():
            listener.end()

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Whether the client wants to hear of a change: of a resource only if it watches that."""
        return "uri" not in params or (
            self._resource_subscriptions is not None and params["uri"] in self._resource_subscriptions
        )

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Tell the client."""
        if self._session is not None:
            await self._session.send_notification(row, params)

    def handle(
        self, channel: Channel, message: RequestReceived | NotificationReceived, traced: bool = False
    ) -> Coroutine[Any, Any, Any]:
        """The answer to a message, to be awaited: that of its handler, where it is no message of the lifecycle."""
        if is_tracing() and not traced:
            return handle_in_trace(partial(self.handle, traced=True), channel, message)
        server = self._server
        handler = server._feature_handlers.get(message.row.method)  # pyright: ignore[reportPrivateUsage]
        if handler is None:
            return self._handle(channel, message)
        if isinstance(message, RequestReceived) and type(server.revision.lifecycle) is Stateless:
            return self._run_handler(handler, channel, message)
        answer: Coroutine[Any, Any, Any] = handler(server.context(self, channel, message), message.params)
        return answer

    async def _handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """The answer to a message of the lifecycle, or to one that has no handler."""
        server, row = self._server, message.row
        if isinstance(message, NotificationReceived):
            return None
        lifecycle = server.revision.lifecycle
        if isinstance(lifecycle, Stateless):
            if message.params.meta.protocol_version != server.revision.id:
                raise self._reject_version(message)
            if row is lifecycle.discover:
                return self._discover_result(message.row)
            if row is lifecycle.listen:
                return await self._listen(channel, message, lifecycle)
        elif row.method == lifecycle.ping_request.method:
            return message.row.result()
        elif lifecycle.set_level is not None and row.method == lifecycle.set_level.method:
            self.log_level = message.params.level
        handler = server._handlers.get(row.method)  # pyright: ignore[reportPrivateUsage]
        if handler is not None:
            answer = await handler(server.context(self, channel, message), message.params)
        elif self._is_handled_here(row):
            check_scopes(server.context(self, channel, message), server.origin.scopes, message)
            answer = message.row.result()
        else:
            raise server._not_handled(row)  # pyright: ignore[reportPrivateUsage]
        if isinstance(lifecycle, Handshake):
            self._track_resource_subscription(lifecycle, message)
        return answer

    async def _run_handler(self, handler: Handler, channel: Channel, request: RequestReceived) -> Any:
        """What a handler answers where nothing is remembered of the client: what it asks becomes a result."""
        server = self._server
        if request.params.meta.protocol_version != server.revision.id:
            raise self._reject_version(request)
        if request.row.input_required is None:
            answer = await handler(server.context(self, channel, request), request.params)
        else:
            rounds = MultiRoundTripRequest(channel, request, self)
            ctx = server.context(self, rounds, request)
            ctx._mrtr = rounds  # pyright: ignore[reportPrivateUsage]
            try:
                answer = await handler(ctx, request.params)
            except (InputRequired, BaseExceptionGroup) as end:
                answer = rounds.input_required_result(end)
        if type(answer) is not request.row.result:
            check_input_required(server.revision, self.request_context(channel, request).capabilities, answer)
        return answer

    @property
    def origin(self) -> ServerCore:
        """The server whose handlers these are."""
        return self._server.origin

    def request_context(self, channel: Channel, request: RequestReceived) -> ServerContext:
        """A context of a request itself, where that of its handler is within rounds."""
        return self._server.context(self, channel, request)

    def _is_handled_here(self, row: Sent) -> bool:
        """Whether a request needs no handler, because what it is about is known here."""
        lifecycle = self._server.revision.lifecycle
        if not isinstance(lifecycle, Handshake):
            return False
        roles = (lifecycle.set_level, lifecycle.subscribe, lifecycle.unsubscribe)
        return row.method in {each.method for each in roles if each is not None}

    def _track_resource_subscription(
        self, lifecycle: Handshake, message: RequestReceived | NotificationReceived
    ) -> None:
        if lifecycle.subscribe is not None and message.row.method == lifecycle.subscribe.method:
            self._resource_subscriptions = self._resource_subscriptions or ResourceSubscriptions()
            self._resource_subscriptions.add(message.params.uri)
        elif lifecycle.unsubscribe is not None and message.row.method == lifecycle.unsubscribe.method:
            if self._resource_subscriptions is not None:
                self._resource_subscriptions.discard(message.params.uri)

    async def _listen(self, channel: Channel, request: RequestReceived, lifecycle: Stateless) -> BaseModel:
        """Let a client listen until it or the server ends that, and say that this was the end."""
        server = self._server
        check_scopes(server.context(self, channel, request), server.origin.scopes, request)
        listener = ListenStream(
            channel, request, await accept_filter(server, server.context(self, channel, request), request)
        )
        request.params = None  # A client may listen for days, and all that it chose is known.
        listeners = self._listen_streams = self._listen_streams or set()
        listeners.add(listener)
        try:
            await listener.run(server.subscription_bus, lifecycle, channel.auth.expires_in if channel.auth else None)
        finally:
            listeners.discard(listener)
        return request.row.read_result(
            {"resultType": "complete", "_meta": {**self._server_info_meta(), **listener.meta}}
        )

    def stamp_server_info(self, connection: Connection) -> None:
        """Let every result say what the server calls itself, where nothing else is remembered of it."""
        if isinstance(connection.revision.lifecycle, Stateless):
            connection.result_meta = to_json(self._server_info_meta())

    def _server_info_meta(self) -> dict[str, Any]:
        return {f"{META}serverInfo": {"name": self._server.name, "version": self._server.version}}

    def _reject_version(self, request: RequestReceived) -> JSONRPCError:
        """The refusal of a request of another revision, which says what revisions there are."""
        requested = request.params.meta.protocol_version
        data = {"supported": self._stateless_ids(), "requested": requested}
        code = int(self._server.revision.constants["UNSUPPORTED_PROTOCOL_VERSION"])
        return JSONRPCError(code, f"unsupported protocol version {requested!r}", data)

    def _stateless_ids(self) -> list[str]:
        return [each.revision_id for each in self._candidates if not each.stateful]

    def _discover_result(self, row: Request[Any]) -> BaseModel:
        server = self._server
        answer: dict[str, Any] = {
            **NO_CACHE,
            "supportedVersions": self._stateless_ids(),
            "capabilities": server.capabilities,
            "_meta": self._server_info_meta(),
        }
        told = row.read_result(answer | ({} if server.instructions is None else {"instructions": server.instructions}))
        said = server.origin.cache_hints.get(row.name)
        return told if said is None else told.model_copy(update=said.fields())

    def initialize(self, connection: Connection, request: RequestReceived) -> BaseModel:
        """The answer to the opening request: the revision that was offered, or else the newest, to take or leave."""
        opening = connection.revision.lifecycle
        assert isinstance(opening, Handshake), "only a handshake has a request that opens it"
        offer, terms = request.params.model_dump(), opening.fields
        offered = [each for each in self._candidates if each.revision_id == offer[terms.version] and each.stateful]
        server = self._server = offered[0].get() if offered else self._server
        server.subscription_bus.subscribe(self)
        self.client_info = offer[terms.client_info]
        connection.local_capabilities = server.capabilities
        connection.negotiated(server.revision, offer[terms.client_capabilities])
        answer: dict[str, Any] = {
            terms.version: server.revision.id,
            terms.server_capabilities: server.capabilities,
            terms.server_info: {"name": server.name, "version": server.version},
            **{each: server.initialize_extras.get(each, {}) for each in terms.required_objects},
        }
        return request.row.read_result(
            answer | ({} if server.instructions is None else {"instructions": server.instructions})
        )


async def accept_filter(server: ServerCore, ctx: ServerContext, request: RequestReceived) -> dict[str, Any]:
    """What a client will hear of what it asks to hear. Raises JSONRPCError where it has not declared what that needs."""
    rows = [row for row in server.revision.table("server_to_client").values() if isinstance(row, Notification)]
    chosen = supported_filter(filter_of(request.params), server.capabilities, rows)
    for row in rows:
        if row.listed is not None and (name := row.listed[0]) in chosen:
            require_client_capabilities(
                server.revision, ctx.capabilities, [f"client{row.capability.removeprefix('server')}"]
            )
            if isinstance(server.origin, SubscriptionPolicy):
                chosen[name] = await server.origin.filter_subscriptions(
                    ctx, row, chosen[name][:MAX_SUBSCRIBED_RESOURCES]
                )
    return chosen
