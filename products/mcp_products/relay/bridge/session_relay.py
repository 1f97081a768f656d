"""The relay of a client with sessions: one session, and its link to the upstream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from mcp_products.common.shared_works import SharedWorks
from mcp_runtime.client.core import package_details
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError
from mcp_runtime.http.clients import ClientKey, session_client
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, Id
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import LOG_LEVEL, Handshake, Revision
from mcp_runtime.server.subscriptions import ResourceSubscriptions
from mcp_runtime.session.interfaces import Channel
from mcp_runtime.session.session import Session
from mcp_runtime.usage import rules

from ..upstream.connection import UpstreamConnection
from ..upstream.opening import ClientDetails
from ..upstream.pool import SessionConnection, open_connection
from ..upstream.raw import FROM_CLIENT, FROM_SERVER
from ..upstream.translation import Translation, is_input_required
from .direct import DirectSession
from .state import BridgeState, ClientCall, RelayBase, initialize_result, request_of_upstream

# Results of a stateless upstream that have requests in them, for clients that get requests of their own.

_log: Final = logging.getLogger("mcp_runtime.bridge")

_MAX_ROUNDS: Final = 100
_PAUSE: Final = 0.2  # Seconds before a request without input is repeated.


async def send_with_rounds(relay: RelayBase, link: UpstreamConnection, call: ClientCall, params: dict[str, Any]) -> Any:
    """Return the final result of a call: the client answers the requests of the results before it.

    MCP specification: https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
    """
    revision, further = link.translation.up, params
    for _ in range(_MAX_ROUNDS):
        result = await relay.send(link, call, further)
        if not is_input_required(revision, call.method, result):
            return result
        requests = result.get("inputRequests")
        responses: dict[str, Any] = {}
        for key, item in requests.items() if is_object(requests) else ():
            item_params: dict[str, Any] = item.get("params") or {}
            responses[key] = await request_of_upstream(link.translation, call.channel, item.get("method"), item_params)
        if not responses:
            await asyncio.sleep(_PAUSE)
        further = {**params, "inputResponses": responses}
        if "requestState" in result:
            further["requestState"] = result["requestState"]
    raise JSONRPCError(INTERNAL_ERROR, f"{call.method!r}: the upstream requested input more than {_MAX_ROUNDS} times")


class SessionRelay(RelayBase):
    """Passes the messages of one session between its client and the upstream."""

    session_class = DirectSession if rules.is_switched_on(rules.FAST_PATHS) else Session  # ADR 0051

    def __init__(self, state: BridgeState, revisions: Sequence[Revision]) -> None:
        """Create the relay of a new session; `revisions` are those with a handshake, oldest first."""
        super().__init__(state, revisions[-1])
        self._revisions = revisions
        self._client: ClientDetails | None = None
        self._own = SessionConnection(self._opened, state.session_places)
        self._view: SessionView | None = None  # Of a connection that sessions share.
        self._was_open = False
        self._level: str | None = None
        self.own_methods: frozenset[str] = frozenset()  # Of the log level and of subscriptions.
        self.subscribed = ResourceSubscriptions()
        self.background_tasks.at_end(self._end_link)

    @property
    def lifecycle(self) -> Handshake:
        """The lifecycle of the client's revision."""
        assert isinstance(self.revision.lifecycle, Handshake), "a session has a handshake"
        return self.revision.lifecycle

    def attach(self, channel: Channel) -> None:
        """Set the session of the client, whose requests may pass directly."""
        super().attach(channel)
        if isinstance(channel, DirectSession):
            channel.relay = self

    @property
    def direct_link(self) -> UpstreamConnection | None:
        """The open link, if all that passes over it is the same on both sides, and nothing limits its time."""
        link = self._own.present
        if link is None or not link.translation.is_same or self.state.settings.timeout is not None:
            return None
        return link

    # ---- the lifecycle -----------------------------------------------------------------------------------------------

    def initialize(self, connection: Connection, request: RequestReceived) -> None:
        """Choose the revision of the session: the one that the client requests, or the newest."""
        names, params = self.lifecycle.fields, request.params
        requested = params[names.version]
        self.revision = next((item for item in self._revisions if item.id == requested), self.revision)
        lifecycle = self.lifecycle
        rows = (lifecycle.set_level, lifecycle.subscribe, lifecycle.unsubscribe)
        self.own_methods = frozenset(row.method for row in rows if row is not None)
        capabilities = params[names.client_capabilities]
        connection.negotiated(self.revision, capabilities)
        self._client = ClientDetails(self.revision, capabilities, params[names.client_info])

    def detach(self) -> None:
        """End the subscriptions of the session; calls that run go on."""
        if (link := self._own.present) is not None:
            self.state.run_later(link.subscriptions.close())

    def _end_link(self) -> None:
        """End the link of the session, after its calls."""
        if self.state.shared is not None:
            self.state.shared.leave(self)
        if (link := self._own.end()) is not None:
            self.state.close_later(link)

    async def link(self, channel: Channel | None = None) -> UpstreamConnection:
        """Return the open link of the session; open it if there is none, or if the upstream has ended.

        `channel` is that of a request, which says at which address the client is.
        """
        if self.state.shared is not None:
            return await self._shared_link()
        try:
            return await self._own.get(lambda: self._client_of(channel or self.session))
        except ConnectionClosedError as error:
            raise self.state.opener.names.failure(error) from None

    def _client_of(self, channel: Channel | None) -> ClientKey | None:
        if channel is None:
            return None
        return session_client(None if channel.auth is None else channel.auth.owner, channel.scope)

    async def _shared_link(self) -> UpstreamConnection:
        if self._view is not None and self._view.is_open:
            return self._view
        view: SessionView = await self.state.shared.join(self, self._details())
        if view is not self._view:  # Not another request has joined meanwhile.
            self._view = view
            await self._use(view)
        return view

    def _details(self) -> ClientDetails:
        if self._client is None:
            raise JSONRPCError(INVALID_REQUEST, "the session is not initialized")
        return self._client

    async def _opened(self) -> UpstreamConnection:
        link = await open_connection(self.state.opener, self._details(), self)
        self.state.links.add(link)
        link.subscriptions.notify = partial(self._changed, link)
        await self._use(link)
        return link

    async def _use(self, link: UpstreamConnection) -> None:
        """Give a link what the session has set before, if it is not its first."""
        was_open = self._was_open
        self._was_open = True
        if was_open:
            await self._restore(link)

    async def _changed(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass a change of a stateless upstream."""
        if self.session is not None:
            await link.pass_notification(self.session, method, params)

    async def _restore(self, link: UpstreamConnection) -> None:
        """Set the level of log messages and the subscriptions of the session at a new upstream."""
        if not link.translation.up_is_stateless and self._level is not None and self.state.shared is None:
            await link.level.use(self._level)
        with suppress(JSONRPCError):
            await link.subscriptions.open()
        for uri in list(self.subscribed.uris):
            with suppress(JSONRPCError):
                await link.subscriptions.resources.add(uri)

    # ---- from the client ---------------------------------------------------------------------------------------------

    async def request(self, channel: Channel, id: Id, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of the client."""
        lifecycle = self.lifecycle
        if method == lifecycle.ping_request.method:
            return {}
        link = await self.link(channel)
        if method == lifecycle.initialize_request.method:
            return initialize_result(link.translation, link.upstream)
        if method in self.own_methods and (own := await self._of_lifecycle(link, method, params)) is not None:
            return own
        translation = link.translation
        if translation.is_same:
            return await self.send(link, ClientCall(channel, id, method), params)
        translation.require(FROM_CLIENT, method)
        provided = {"client_capabilities": link.upstream.client_capabilities}
        converted = translation.params(FROM_CLIENT, method, params, provided)
        call = ClientCall(channel, id, method)
        if translation.up_is_stateless:
            converted = self._with_meta(link, converted)
            result = await send_with_rounds(self, link, call, converted)
        else:
            result = await self.send(link, call, converted)
        return translation.result(FROM_CLIENT, method, result)

    async def _of_lifecycle(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> Any:
        """Note what the client sets and subscribes to. Return the result if the upstream has no such request."""
        lifecycle = self.lifecycle
        roles = (lifecycle.set_level, lifecycle.subscribe, lifecycle.unsubscribe)
        set_level, subscribe, _ = (None if row is None else row.method for row in roles)
        is_counted = link.translation.up_is_stateless or self.state.shared is not None
        uri = params.get("uri")
        if method == set_level:
            self._level = params.get("level")
            if self.state.shared is not None and not link.translation.up_is_stateless:
                self.state.losses.add(method, "log messages of a shared upstream belong to no session")
        elif isinstance(uri, str) and method == subscribe:
            self.subscribed.check(uri)
            if is_counted and uri not in self.subscribed:
                await link.subscriptions.resources.add(uri)
            self.subscribed.add(uri)
        elif isinstance(uri, str) and uri in self.subscribed:
            self.subscribed.discard(uri)
            if is_counted:
                await link.subscriptions.resources.remove(uri)
        return {} if is_counted else None

    def _with_meta(self, link: UpstreamConnection, params: dict[str, Any]) -> dict[str, Any]:
        """Return the params of a request with what each request to a stateless upstream has in `_meta`."""
        meta = params.get("_meta")
        level = {} if self._level is None else {LOG_LEVEL: self._level}
        return {**params, "_meta": {**(meta if is_object(meta) else {}), **link.upstream.request_meta, **level}}

    async def notification(self, message: NotificationReceived) -> None:
        """Pass a notification of the client."""
        method, lifecycle = message.row.method, self.lifecycle
        if method == lifecycle.cancelled.method:
            return
        try:
            link = await self.link()
        except JSONRPCError as error:  # The next request gets it.
            _log.warning("%r is not passed: %s", method, error)
            return
        translation = link.translation
        if method == lifecycle.initialized.method:
            with suppress(JSONRPCError):
                await link.subscriptions.open()
            return
        if translation.has(FROM_CLIENT, method) or self.state.shared is not None:
            return
        params = message.params if is_object(message.params) else message.params.model_dump()
        params = translation.params(FROM_CLIENT, method, params)
        with suppress(MCPError):
            await link.notify_upstream(translation.method(FROM_CLIENT, method), params)

    # ---- from the upstream -------------------------------------------------------------------------------------------

    async def notified(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass a notification of the upstream: one about a change over the session, others with the last request."""
        if self.session is None:
            return
        row = link.translation.up.table(FROM_SERVER).get(method)
        log = self.lifecycle.log
        is_change = row is not None and (log is None or method != log.method)
        call = link.last_call
        channel = call.channel if isinstance(call, ClientCall) and not is_change else self.session
        with suppress(MCPError):
            await link.pass_notification(channel, method, params)

    async def requested(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of the upstream, which the client answers."""
        call = link.last_call
        channel = call.channel if isinstance(call, ClientCall) else self.session
        if channel is None or self.state.shared is not None:
            raise JSONRPCError(INVALID_REQUEST, "no client of the bridge can answer")
        return await request_of_upstream(link.translation, channel, method, params)

    def ended(self, link: UpstreamConnection) -> None:
        """Let the next request open a new link."""
        self.state.links.discard(link)
        if not link.upstream.is_closing:
            link.free_place()


# UpstreamConnections that many sessions share: the upstream sees one client without capabilities.


class _SharedLink:
    """A connection that may be open, and the sessions that use it, each with its view once it has one."""

    def __init__(self) -> None:
        self.connection: UpstreamConnection | None = None
        self.sessions: dict[SessionRelay, SessionView | None] = {}


class SharedLinks:
    """A fixed number of connections to the upstream; each session uses the one with the fewest sessions."""

    def __init__(self, state: BridgeState, number: int) -> None:
        """Create links that open when a session first needs them."""
        self._state = state
        self._links = [_SharedLink() for _ in range(number)]
        self._opening: SharedWorks[_SharedLink, UpstreamConnection] = SharedWorks("the connection to the upstream")

    async def join(self, session: SessionRelay, client: ClientDetails) -> SessionView:
        """Return the link of a session: a view of a shared connection in the revision of its client."""
        link = next((link for link in self._links if session in link.sessions), None)
        if link is None:
            link = min(self._links, key=lambda link: len(link.sessions))
            link.sessions[session] = None
        shared = await self._shared(link)
        view = link.sessions.get(session)
        if view is None or view.upstream is not shared.upstream:
            translation = Translation(client.revision, shared.upstream.revision, self._state.losses)
            view = link.sessions[session] = SessionView(shared, session, translation)
        return view

    async def _shared(self, link: _SharedLink) -> UpstreamConnection:
        if link.connection is not None and link.connection.is_open:
            return link.connection
        return await self._opening.run(link, lambda: self._open(link))

    async def _open(self, link: _SharedLink) -> UpstreamConnection:
        opener = self._state.opener
        client = ClientDetails(opener.newest, {}, package_details())
        connection = link.connection = await open_connection(opener, client, self)
        connection.fan_out = self._state.fan_out
        connection.subscriptions.notify = partial(self.notified, connection)
        return connection

    def leave(self, session: SessionRelay) -> None:
        """Forget a session that has ended."""
        for link in self._links:
            view = link.sessions.pop(session, None)
            if view is not None and view.is_open and (uris := list(session.subscribed.uris)):
                self._state.run_later(view.unsubscribe(uris))

    # ---- from the upstream -------------------------------------------------------------------------------------------

    async def notified(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass a change to all sessions of the link; one of a resource to those that have subscribed to it."""
        row = link.translation.up.table(FROM_SERVER).get(method)
        log = link.upstream.revision.lifecycle.log
        if row is None or (log is not None and method == log.method):
            self._state.losses.add(method, "it belongs to no session of a shared upstream")
            return
        await self._state.fan_out.send_all(
            (session, partial(session.notified, view, method, params))
            for shared in self._links
            if shared.connection is link
            for session, view in list(shared.sessions.items())
            if view is not None and ("uri" not in params or params["uri"] in session.subscribed)
        )

    async def requested(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> Any:
        """Raise JSONRPCError: the upstream has no client that could answer."""
        self._state.losses.add(method, "a shared upstream has no client that can answer")
        raise JSONRPCError(METHOD_NOT_FOUND, f"{method!r}: the client has not declared it")

    def ended(self, link: UpstreamConnection) -> None:
        """Let the next request open a new connection."""

    async def close(self) -> None:
        """Close all connections."""
        await self._opening.close()
        await asyncio.gather(*(link.connection.close() for link in self._links if link.connection is not None))


class SessionView(UpstreamConnection):
    """A shared link as one session sees it: in the revision of its client."""

    def __init__(self, shared: UpstreamConnection, session: SessionRelay, translation: Translation) -> None:
        """Create the view of a session."""
        super().__init__(session)
        self.upstream = shared.upstream
        self.translation = translation
        self.share_calls_of(shared)

    async def unsubscribe(self, uris: Sequence[str]) -> None:
        """End the subscriptions of the session."""
        for uri in uris:
            await self.subscriptions.resources.remove(uri)
