"""The connections to one target while an app is served: of sessions, and those that requests without one borrow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from mcp_runtime.aio.fan_out import FanOut
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.revision import LOG_LEVEL, Revision
from mcp_runtime.server.context import ConnectionState, ServerContext, session_key, share_key
from mcp_runtime.server.service import ServerDispatcher

from ..upstream.connection import Downstream, UpstreamConnection
from ..upstream.opening import ClientDetails, Opener, UpstreamNames
from ..upstream.places import SessionPlaces
from ..upstream.pool import Borrower, Pool, SessionConnection, open_connection
from ..upstream.subscriptions import WantedResources
from ..upstream.suspended import SuspendedCalls
from ..upstream.target import ClientConnector
from ..upstream.translation import LossCounter
from .calls import ProxyDownstream
from .changes import ChangeTeller
from .client_side import INPUT_CAPABILITIES, session_capabilities
from .target import ConnectedTarget, ListenedResources, RelayedTarget, TargetConnection, Watches

_IDLE_SECONDS: Final = 60.0  # Seconds after which an unused connection is closed.
_LISTEN_SECONDS: Final = 1.0  # Seconds that a target may take to listen, so that a change by a first request is heard.


def target_names(proxy: str) -> UpstreamNames:
    """Return how the errors of a proxy name its target."""
    failed = f"the target of the proxy {proxy!r}"
    return UpstreamNames(failed, f"{failed} cannot be reached", repr(proxy), "connections")


class ProxySession:
    """The connection of one session; or that of all clients without sessions, for what no request is about."""

    def __init__(self, connections: TargetConnections, ctx: ServerContext) -> None:
        """Create a connection that is not open, for the client of a request."""
        state = ctx.connection_state
        has_client = not is_sessionless(state)
        dispatcher = cast(ServerDispatcher, state) if has_client else None
        self._teller = None if state.is_shared else ChangeTeller(connections.name, 0.0)
        teller = self._teller or connections.teller
        teller.on_list = connections.teller.on_list
        if has_client:
            teller.add(state)
        downstream = ProxyDownstream(connections.name, connections.revision, teller, dispatcher)
        details = connections.details(ctx)
        self.downstream = downstream
        self._connections = connections
        self.connection = SessionConnection(lambda: self._open(details), connections.places)
        self._present: UpstreamConnection | None = None
        self.watches = Watches(self._subscribe, self._unsubscribe)
        downstream.watched = self.watches.outside_of
        connected = connections.connected
        self._listened = (
            None if connected is None else ListenedResources(connected.client, connections.name, downstream.changed)
        )

    async def _open(self, details: ClientDetails) -> UpstreamConnection:
        connection = self._present = await self._connections.open(details, self.downstream)
        return connection

    @property
    def _resources(self) -> WantedResources | None:
        if self._listened is not None:
            return self._listened.resources
        return None if self._present is None or not self._present.is_open else self._present.subscriptions.resources

    async def _subscribe(self, uri: str) -> None:
        if (resources := self._resources) is None:
            raise JSONRPCError(INTERNAL_ERROR, f"the subscription to {uri!r} was ended")
        await resources.add(uri)

    async def _unsubscribe(self, uri: str) -> None:
        if (resources := self._resources) is not None:
            await resources.remove(uri)

    def unwatch(self) -> None:
        """End the subscriptions to resources."""
        self.watches.clear()
        if (resources := self._resources) is not None:
            resources.clear()

    async def close(self) -> None:
        """End what waits to be sent, and what a client of the program is asked for."""
        if self._teller is not None:
            await self._teller.close()
        if self._listened is not None:
            await self._listened.close()


class TargetConnections:
    """The connections to one target while an app is served, and the calls that wait for their clients.

    A session has a connection for itself. Requests without one borrow connections of a pool.
    """

    def __init__(
        self,
        name: str,
        connector: ClientConnector,
        revision: Revision,
        limit: int,
        places: SessionPlaces,
        teller: ChangeTeller,
    ) -> None:
        """Create the connections; none is open.

        Args:
            name: The name of the proxy, for messages.
            connector: Opens the transports.
            revision: The protocol version of the app.
            limit: The number of connections of requests without a session.
            places: Those of sessions, which clients share.
            teller: Tells clients without sessions what has changed.
        """
        names = target_names(name)
        self.name = name
        self.revision = revision
        self.places = places
        self.teller = teller
        self.suspended = SuspendedCalls()
        self.opener = Opener(connector, revision.package, LossCounter(), names, connector.revisions)
        self.connected = None if connector.connected is None else ConnectedTarget(connector.connected, name)
        self.target_is_stateless: bool | None = None if self.connected is None else True
        """Whether the target keeps no calls while it waits for clients; None before it was first connected to."""
        self._fan_out = FanOut()
        self._pool = Pool(limit, self._open_shared, self._close_later, names)
        self._pool.end_waiting.append(self.suspended.end_oldest)
        self._borrowed = ProxyDownstream(name, revision, teller)
        self.input_rows = self._borrowed.input_rows
        self._of_sessions: WeakKeyDictionary[ConnectionState, ProxySession] = WeakKeyDictionary()
        self._ending: set[asyncio.Task[Any]] = set()

    def details(self, ctx: ServerContext) -> ClientDetails:
        """Return what the target is to know of the client of a request."""
        return ClientDetails(self.revision, session_capabilities(ctx), {"name": self.name, "version": "0"})

    async def open(
        self, details: ClientDetails, downstream: Downstream, owner: str = "", listens_within: float = 0.0
    ) -> UpstreamConnection:
        """Return an open connection, on which a stateless target is asked for changes of its lists, which it need not
        allow; wait so many seconds until it listens. Raises JSONRPCError if the target cannot be reached."""
        connection = await open_connection(self.opener, details, downstream, owner)
        self.target_is_stateless = connection.translation.up_is_stateless
        connection.subscriptions.notify = lambda method, params: downstream.notified(connection, method, params)
        try:
            await asyncio.wait([self.run_later(_listen(connection))], timeout=listens_within)
        except BaseException:
            self._close_later(connection)
            raise
        return connection

    async def _open_shared(self, details: ClientDetails, downstream: Downstream, owner: str) -> UpstreamConnection:
        connection = await self.open(details, downstream, owner, _LISTEN_SECONDS)
        connection.fan_out = self._fan_out
        return connection

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _borrower(self, ctx: ServerContext) -> tuple[Borrower, Callable[[bool], bool]]:
        """Return who sends a request, and whether the target may send messages that belong to it."""
        details, user = self.details(ctx), "" if ctx.user is None else ctx.user.key
        capabilities = details.capabilities
        wants_logs, answers = LOG_LEVEL in ctx.meta, any(name in capabilities for name in INPUT_CAPABILITIES)
        key = user, json.dumps(capabilities, sort_keys=True)
        return Borrower(share_key(ctx), key, details, user), lambda stateless: wants_logs or (answers and not stateless)

    async def acquire(self, ctx: ServerContext) -> tuple[TargetConnection, Callable[[], None], bool]:
        """Return a connection for a request, what gives it back, and whether messages of the target belong to it.

        Raises JSONRPCError if there is none in time, or if the target cannot be reached.
        """
        if self.connected is not None:
            if not self.connected.is_open:
                text = f"the connection of the proxy {self.name!r} to its target has ended"
                raise JSONRPCError(INTERNAL_ERROR, text)
            return self.connected, _nothing, False
        if ctx.connection_state.session_id is not None:
            return self._target(await self._opened(self.of_session(ctx), ctx)), _nothing, True
        borrower, gets_messages = self._borrower(ctx)
        if ctx.connection_state.is_stateless:
            self.teller.add(ctx.connection_state)
        connection = await self._pool.acquire(borrower, self._borrowed, gets_messages)
        holds = gets_messages(connection.translation.up_is_stateless)

        def release() -> None:
            self._pool.release(connection, held=holds)
            loop = asyncio.get_running_loop()
            loop.call_later(_IDLE_SECONDS, lambda: self._pool.close_idle(loop.time() - _IDLE_SECONDS))

        return self._target(connection), release, holds

    def _target(self, connection: UpstreamConnection) -> RelayedTarget:
        return RelayedTarget(connection, self.revision, self.name)

    # ---- sessions ----------------------------------------------------------------------------------------------------

    def of_session(self, ctx: ServerContext) -> ProxySession:
        """Return the connection of a client's session, which need not be open."""
        state = ctx.connection_state
        session = self._of_sessions.get(state)
        if session is None:
            session = self._of_sessions[state] = ProxySession(self, ctx)
            state.background_tasks.at_end(lambda: self._end_session(state))
        return session

    async def _opened(self, session: ProxySession, ctx: ServerContext) -> UpstreamConnection:
        has_place = ctx.connection_state.session_id is not None
        try:
            return await session.connection.get(lambda: session_key(ctx) if has_place else None)
        except ConnectionClosedError as error:
            raise self.opener.names.failure(error) from error

    async def subscribe(self, ctx: ServerContext, uri: str, outside: str) -> None:
        """Notify the client of a session of changes of a resource.

        Args:
            ctx: The context of a request of the session.
            uri: The URI that the target has.
            outside: The URI that the client has.

        Raises JSONRPCError if the target refuses that, or cannot be reached.
        """
        session = await self.open_session(ctx)
        await session.watches.add(uri, outside)

    async def open_session(self, ctx: ServerContext) -> ProxySession:
        """Return the connection of a client's session, which is open. Raises JSONRPCError."""
        session = self.of_session(ctx)
        if self.connected is None:
            await self._opened(session, ctx)
        return session

    async def unsubscribe(self, ctx: ServerContext, outside: str) -> None:
        """End one subscription to a resource."""
        if (session := self._of_sessions.get(ctx.connection_state)) is not None:
            await session.watches.remove(outside)

    def existing(self, state: ConnectionState) -> RelayedTarget | None:
        """Return the connection of a session if it is open."""
        session = self._of_sessions.get(state)
        connection = None if session is None else session.connection.present
        return None if connection is None else self._target(connection)

    def is_opening(self, ctx: ServerContext) -> bool:
        """Return True while a connection for a client opens."""
        session = self._of_sessions.get(ctx.connection_state)
        if ctx.connection_state.session_id is not None:
            return session is not None and session.connection.is_opening
        return self._pool.is_opening(self._borrower(ctx)[0])

    def unwatch(self) -> None:
        """End the subscriptions to resources of all connections."""
        for session in self._of_sessions.values():
            session.unwatch()

    def _end_session(self, state: ConnectionState) -> None:
        if (session := self._of_sessions.pop(state, None)) is not None:
            self._end(session)

    def _end(self, session: ProxySession) -> None:
        if (connection := session.connection.end()) is not None:
            self._close_later(connection)
        self.run_later(session.close())

    # ---- closing -----------------------------------------------------------------------------------------------------

    def run_later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what no request waits for in a task of its own, which ends before the connections have ended."""
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _close_later(self, connection: UpstreamConnection) -> asyncio.Task[None]:
        return self.run_later(connection.close())

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        self.suspended.close()
        await self._pool.close()
        for session in list(self._of_sessions.values()):
            self._end(session)
        self._of_sessions.clear()
        while self._ending:
            await asyncio.wait(list(self._ending))


def _nothing() -> None:
    """Give nothing back: the connection belongs to a session, or to a program."""


async def _listen(connection: UpstreamConnection) -> None:
    with suppress(JSONRPCError):
        await connection.subscriptions.open()


def is_sessionless(state: ConnectionState) -> bool:
    """Return True for a request of a version with a handshake that is served without a session (`stateless_http`)."""
    return state.session_id is None and not state.is_stateless
