"""The relay of a client with sessions: one session, and its link to the upstream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...aio.shared_work import SharedWork
from ...errors import ConnectionClosedError, JSONRPCError, MCPError
from ...http.client_keys import ClientKey, session_client
from ...protocol.connection import Connection
from ...protocol.events import NotificationReceived, RequestReceived
from ...protocol.jsonrpc import INVALID_REQUEST, Id
from ...protocol.models import is_object
from ...protocol.revision import Handshake, Revision
from ...protocol.uris import uri_key
from ...session.interfaces import Channel
from ..direct.direct_session import DirectSession
from ..raw.raw_connection import FROM_CLIENT, FROM_SERVER, raw_notification
from ..upstream.link import Call, Link, upstream_error
from ..upstream.opening import ClientDetails
from ..upstream.pools import open_link
from .bridge_state import BridgeState
from .dispatching import RelayBase
from .input_rounds import send_with_rounds
from .messages import initialize_result, request_of_upstream
from .upstream_subscriptions import UpstreamSubscriptions, stateless_params


class SessionRelay(RelayBase):
    """Passes the messages of one session between its client and the upstream."""

    session_class = DirectSession

    def __init__(self, state: BridgeState, revisions: Sequence[Revision]) -> None:
        """Create the relay of a new session; `revisions` are those with a handshake, oldest first."""
        super().__init__(state, revisions[-1])
        self._revisions = revisions
        self._client: ClientDetails | None = None
        self._client_key: ClientKey | None = None
        self._link: Link | None = None
        self._opening: SharedWork[Link] = SharedWork("the connection to the upstream")
        self._subscriptions: UpstreamSubscriptions | None = None
        self._level: str | None = None
        self.own_methods: frozenset[str] = frozenset()  # Of the log level and of subscriptions.
        self.uris: dict[str, str] = {}
        """The resources that the client has subscribed to, by the form that all spellings of a URI have."""

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
    def direct_link(self) -> Link | None:
        """The open link, if all that passes over it is the same on both sides, and nothing limits its time."""
        link, state = self._link, self.state
        if (
            link is None
            or not link.translation.is_same
            or state.shared is not None
            or state.settings.timeout is not None
        ):
            return None
        return link if link.is_open else None

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
        """End the link of the session."""
        if self._subscriptions is not None:
            self._subscriptions.close()
        self._opening.cancel()
        link = self._link
        self._link = None
        if self.state.shared is not None:
            self.state.shared.leave(self)
        elif link is not None:
            self.state.close_later(link)

    async def link(self, channel: Channel | None = None) -> Link:
        """Return the open link of the session; open it if there is none, or if the upstream has ended.

        `channel` is that of a request, which says at which address the client is.
        """
        if self._link is not None and self._link.is_open:
            return self._link
        if channel is not None:
            owner = None if channel.auth is None else channel.auth.owner
            self._client_key = session_client(owner, channel.scope)
        try:
            return await self._opening.run(self._open)
        except ConnectionClosedError as error:
            raise upstream_error(error) from None

    async def _open(self) -> Link:
        if self._client is None:
            raise JSONRPCError(INVALID_REQUEST, "the session is not initialized")
        is_new = self._link is None
        if self.state.shared is not None:
            link = await self.state.shared.join(self, self._client)
        else:
            link = await self._own_link(self._client)
        self._link = link
        if not is_new:
            await self._restore(link)
        return link

    async def _own_link(self, client: ClientDetails) -> Link:
        """Open a link that this session has for itself. Raises JSONRPCError if its client has too many."""
        give_back = self.state.session_places.take(self._client_key)
        try:
            link = await open_link(self.state.opener, client, self)
        except BaseException:
            give_back()
            raise
        link.give_place_back = give_back
        self.state.links.add(link)
        return link

    async def _restore(self, link: Link) -> None:
        """Set the level of log messages and the subscriptions of the session at a new upstream."""
        session, lifecycle = self.session, link.upstream.revision.lifecycle
        if session is None:
            return
        if not isinstance(lifecycle, Handshake):
            self._subscriptions = None
            await self._begin_listening(link)
            return
        requests = [(lifecycle.set_level, {"level": self._level})] if self._level is not None else []
        requests += [(lifecycle.subscribe, {"uri": uri}) for uri in self.uris.values()]
        for row, params in requests:
            if row is not None:
                with suppress(JSONRPCError):
                    await self.send(link, Call(session, 0, row.method), params)

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
            return await self.send(link, Call(channel, id, method), params)
        translation.require(FROM_CLIENT, method)
        provided = {"client_capabilities": link.upstream.client_capabilities}
        converted = translation.params(FROM_CLIENT, method, params, provided)
        call = Call(channel, id, method)
        if translation.up_is_stateless:
            converted = stateless_params(translation, link, converted, self._level)
            result = await send_with_rounds(self, link, call, converted)
        else:
            result = await self.send(link, call, converted)
        return translation.result(FROM_CLIENT, method, result)

    async def _of_lifecycle(self, link: Link, method: str, params: dict[str, Any]) -> Any:
        """Note what the client sets and subscribes to. Return the result if the upstream has no such request."""
        lifecycle = self.lifecycle
        roles = (lifecycle.set_level, lifecycle.subscribe, lifecycle.unsubscribe)
        set_level, subscribe, _ = (None if row is None else row.method for row in roles)
        stateless = link.translation.up_is_stateless
        uri = params.get("uri")
        if method == set_level:
            self._level = params.get("level")
            if self.state.shared is not None and not stateless:
                self.state.losses.add(method, "log messages of a shared upstream belong to no session")
                return {}
        elif isinstance(uri, str) and method == subscribe:
            self.uris[uri_key(uri)] = uri
            if stateless:
                await self._listener(link).subscribe(uri)
        elif isinstance(uri, str):
            self.uris.pop(uri_key(uri), None)
            if stateless:
                await self._listener(link).unsubscribe(uri)
            elif self.state.shared is not None and self.state.shared.is_subscribed(link, uri):
                return {}
        return {} if stateless else None

    def _listener(self, link: Link) -> UpstreamSubscriptions:
        if self._subscriptions is None:
            self._subscriptions = UpstreamSubscriptions(link, self.session)
        return self._subscriptions

    async def _begin_listening(self, link: Link) -> None:
        listener = self._listener(link)
        for uri in self.uris.values():
            listener.add(uri)
        await listener.open()

    async def notification(self, message: NotificationReceived) -> None:
        """Pass a notification of the client."""
        method, lifecycle = message.row.method, self.lifecycle
        if method == lifecycle.cancelled.method:
            return
        link = await self.link()
        translation = link.translation
        if method == lifecycle.initialized.method:
            if translation.up_is_stateless:
                await self._begin_listening(link)
            return
        if translation.has(FROM_CLIENT, method) or self.state.shared is not None:
            return
        params = message.params if is_object(message.params) else message.params.model_dump()
        params = translation.params(FROM_CLIENT, method, params)
        with suppress(MCPError):
            row = raw_notification(translation.method(FROM_CLIENT, method), FROM_CLIENT)
            await link.upstream.session.send_notification(row, params)

    # ---- from the upstream -------------------------------------------------------------------------------------------

    async def notified(self, link: Link, method: str, params: dict[str, Any]) -> None:
        """Pass a notification of the upstream: one about a change over the session, others with the last request."""
        if self.session is None:
            return
        row = link.translation.up.table(FROM_SERVER).get(method)
        log = self.lifecycle.log
        is_change = row is not None and (log is None or method != log.method)
        call = link.last_call
        channel = self.session if is_change or call is None else call.channel
        with suppress(MCPError):
            await link.pass_notification(channel, method, params)

    async def requested(self, link: Link, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of the upstream, which the client answers."""
        call = link.last_call
        channel = self.session if call is None else call.channel
        if channel is None or self.state.shared is not None:
            raise JSONRPCError(INVALID_REQUEST, "no client of the bridge can answer")
        return await request_of_upstream(link.translation, channel, method, params)

    def ended(self, link: Link) -> None:
        """Let the next request open a new link."""
        self.state.links.discard(link)
        if not link.upstream.is_closing:
            link.free_place()
