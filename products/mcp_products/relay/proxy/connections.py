"""The connections to one target while an app is served: of sessions, and those that requests without one borrow."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from mcp_runtime.aio.fan_out import FanOut
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError
from mcp_runtime.http.clients import ClientKey
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.revision import LOG_LEVEL, Revision
from mcp_runtime.server.context import ConnectionState, ServerContext, session_key, share_key
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.usage.texts import quoted

from ..upstream.connection import Downstream, UpstreamConnection
from ..upstream.opening import ClientDetails, Opener, UpstreamNames
from ..upstream.places import SessionPlaces
from ..upstream.pool import Borrower, Pool, SessionConnection, open_connection
from ..upstream.subscriptions import WantedResources
from ..upstream.suspended import SuspendedCalls
from ..upstream.target import ClientConnector
from ..upstream.translation import LossCounter
from .calls import ProxyDownstream
from .client_side import INPUT_CAPABILITIES, ChangeTeller, session_capabilities
from .sharing import ConnectionRules, SessionSharing
from .target import ConnectedTarget, ListenedResources, RelayedTarget, TargetConnection, Watches

_log: Final = logging.getLogger("mcp_runtime.relay.proxy.connections")

_IDLE_SECONDS: Final = 60.0  # Seconds after which an unused connection is closed.
_REOPENINGS: Final = 20  # How often one tries to open a connection again that has subscriptions.
_REOPENING_SECONDS: Final = 1.0  # Seconds between two of these; the opener waits as well.
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
        downstream = ProxyDownstream(
            connections.name, connections.revision, teller, dispatcher, connections.own_methods
        )
        details = connections.details(ctx)
        self._open = partial(connections.open, details, downstream)
        self._run_later = connections.run_later
        self.downstream = downstream
        self.subscribing = 0
        self.client: ClientKey | None = None
        self.connection = SessionConnection(self._opened, connections.places)
        downstream.on_ended = self._ended
        self.watches = Watches(self._subscribe, self._unsubscribe)
        downstream.watched = self.watches.outside_of
        connected = connections.connected
        self._listened = (
            None if connected is None else ListenedResources(connected.client, connections.name, downstream.changed)
        )

    @property
    def _resources(self) -> WantedResources | None:
        if self._listened is not None:
            return self._listened.resources
        connection = self.connection.present
        return None if connection is None else connection.subscriptions.resources

    async def _subscribe(self, uri: str) -> None:
        if (resources := self._resources) is None:
            raise JSONRPCError(INTERNAL_ERROR, f"the subscription to {uri!r} was ended")
        await resources.add(uri)

    async def _unsubscribe(self, uri: str) -> None:
        if (resources := self._resources) is not None:
            await resources.remove(uri)

    async def _opened(self) -> UpstreamConnection:
        """Return a new connection with the subscriptions of the one before. Clients are told what may have changed."""
        connection = await self._open()
        for _, inside, outside in self.watches.all():
            try:
                await connection.subscriptions.resources.add(inside)
            except JSONRPCError as error:
                _log.warning("the subscription to %s has ended: %s", quoted(outside), error)
                self.watches.forget(outside)
            else:
                self._run_later(self.downstream.changed(inside))
        return connection

    def _ended(self) -> None:
        if self.watches.is_any:
            self._run_later(self._reopen())

    async def _reopen(self) -> None:
        """Open a connection again that has ended, because somebody watches; after failures, the next request does."""
        for _ in range(_REOPENINGS):
            if not self.watches.is_any:
                return
            try:
                await self.connection.get(lambda: self.client)
                return
            except MCPError as error:
                _log.debug("a connection with subscriptions was not opened again: %s", error)
                await asyncio.sleep(_REOPENING_SECONDS)

    def unwatch(self) -> None:
        """End the subscriptions to resources."""
        self.watches.clear()
        if (resources := self._resources) is not None:
            resources.clear()

    def idle_since(self, since: float) -> UpstreamConnection | None:
        """Return the connection, which is open no more, if nothing has used it since a time, and nobody watches."""
        connection = self.connection.present
        is_used = self.subscribing or self.watches.is_any or (connection is not None and connection.users)
        if connection is None or connection.last_used > since or is_used:
            return None
        connection.upstream.is_closing = True
        return connection

    async def close(self) -> None:
        """End what waits to be sent, and what a client of the program is asked for."""
        if self._teller is not None:
            await self._teller.close()
        if self._listened is not None:
            await self._listened.close()


class TargetConnections:
    """The connections to one target while an app is served, and the calls that wait for their clients.

    A session has a connection for itself, unless sessions may share connections. Requests without one, and those of
    sessions that share connections, borrow them of a pool.
    """

    def __init__(
        self,
        name: str,
        connector: ClientConnector,
        revision: Revision,
        rules: ConnectionRules,
        places: SessionPlaces,
        teller: ChangeTeller,
    ) -> None:
        """Create the connections; none is open.

        Args:
            name: The name of the proxy, for messages.
            connector: Opens the transports.
            revision: The protocol version of the app.
            rules: How many connections there may be, and which sessions have.
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
        self.own_methods = rules.own_methods
        self._target_logs = False
        self._fan_out = FanOut()
        self._idle_seconds = rules.idle
        self._pool = Pool(rules.limit, self._open_shared, self._close_later, names)
        of_sessions = names._replace(setting="session_connections")
        self._session_pool = Pool(places.limit, self._open_shared, self._close_later, of_sessions)
        for pool in (self._pool, self._session_pool):
            pool.end_waiting.append(self.suspended.end_oldest)
        self.sharing = SessionSharing(rules.share, self._close_later)
        self._borrowed = ProxyDownstream(name, revision, teller, None, rules.own_methods)
        self.input_rows = self._borrowed.input_rows
        self._of_sessions: WeakKeyDictionary[ConnectionState, ProxySession] = WeakKeyDictionary()
        self._ending: set[asyncio.Task[Any]] = set()
        self._requests = 0  # Those that have a connection.
        self._unused = asyncio.Event()
        self._unused.set()

    def details(self, ctx: ServerContext) -> ClientDetails:
        """Return what the target is to know of the client of a request."""
        return ClientDetails(self.revision, session_capabilities(ctx), {"name": self.name, "version": "0"})

    async def open(
        self, details: ClientDetails, downstream: Downstream, owner: str = "", listens_within: float = 0.0
    ) -> UpstreamConnection:
        """Return an open connection, on which a stateless target is asked for changes of its lists, which it need not
        allow; wait so many seconds until it listens. Raises JSONRPCError if the target cannot be reached."""
        if (first := self.sharing.take(downstream, owner, details.capabilities)) is not None:
            return first
        connection = await open_connection(self.opener, details, downstream, owner)
        self.target_is_stateless = connection.translation.up_is_stateless
        self._target_logs = "logging" in connection.capabilities
        connection.subscriptions.notify = partial(_notified, connection)
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
        details, user = self.details(ctx), _user_of(ctx)
        capabilities = details.capabilities
        wants_logs, answers = self._wants_logs(ctx), any(name in capabilities for name in INPUT_CAPABILITIES)
        key = user, json.dumps(capabilities, sort_keys=True)
        return Borrower(share_key(ctx), key, details, user), lambda stateless: wants_logs or (answers and not stateless)

    async def acquire(self, ctx: ServerContext) -> tuple[TargetConnection, Callable[[], None], bool]:
        """Return a connection for a request, what gives it back, and whether messages of the target belong to it.

        Raises JSONRPCError if there is none in time, or if the target cannot be reached.
        """
        connection, give_back, holds = await self._acquire(ctx)
        self._requests += 1
        self._unused.clear()

        def release() -> None:
            give_back()
            self._requests -= 1
            if not self._requests:
                self._unused.set()

        return connection, release, holds

    async def _acquire(self, ctx: ServerContext) -> tuple[TargetConnection, Callable[[], None], bool]:
        if self.connected is not None:
            if not self.connected.is_open:
                text = f"the connection of the proxy {self.name!r} to its target has ended"
                raise JSONRPCError(INTERNAL_ERROR, text)
            return self.connected, _nothing, False
        state, pool = ctx.connection_state, self._pool
        if state.session_id is not None:
            if not await self._shares(ctx):
                return await self._acquire_own(ctx)
            pool = self._session_pool
        borrower, gets_messages = self._borrower(ctx)
        if pool is self._session_pool and self.sharing.add(state, borrower.key):
            state.background_tasks.at_end(lambda: self._end_session(state))
        if state.is_stateless or pool is self._session_pool:
            self.teller.add(state)
        connection = await pool.acquire(borrower, self._borrowed, gets_messages)
        holds = gets_messages(connection.translation.up_is_stateless)

        def release() -> None:
            pool.release(connection, held=holds)
            self._close_idle_later(pool)

        return self._target(connection, pool is self._pool or self._wants_logs(ctx)), release, holds

    async def _acquire_own(self, ctx: ServerContext) -> tuple[TargetConnection, Callable[[], None], bool]:
        """Return the connection that a session has for itself, as `acquire` does."""
        session = self.of_session(ctx)
        connection = await self._opened(session, ctx)
        connection.users += 1

        def release() -> None:
            connection.users -= 1
            self._end_idle_later(session)

        return self._target(connection), release, True

    def _target(self, connection: UpstreamConnection, wants_logs: bool = True) -> RelayedTarget:
        return RelayedTarget(connection, self.revision, self.name, wants_logs)

    def _wants_logs(self, ctx: ServerContext) -> bool:
        """Return True if the client of a request over a shared connection is to get log messages of the target.

        These name no request, so that such a request has the connection for itself. A session has a level from its
        beginning: with `share = true` its client gets log messages only if it has set one.
        """
        if self.own_methods:
            return True  # What the target sends by them names no request either.
        if ctx.connection_state.session_id is None:
            return LOG_LEVEL in ctx.meta
        may_log = self._target_logs and self.sharing.share is None
        return may_log or self.sharing.has_set_level(ctx.connection_state)

    # ---- sessions that share connections -----------------------------------------------------------------------------

    async def _shares(self, ctx: ServerContext) -> bool:
        """Return True if a session uses connections that others use too. One that has a connection keeps it.

        Raises JSONRPCError if that is not known, and the target cannot be reached.
        """
        own = self._of_sessions.get(ctx.connection_state)
        has_own = own is not None and (
            own.connection.present is not None or own.connection.is_opening or own.watches.is_any
        )
        if self.sharing.share is False or has_own or session_key(ctx) is None:
            return False
        details = self.details(ctx)
        if self.target_is_stateless is None and self.sharing.share is None:
            downstream, user = self.of_session(ctx).downstream, _user_of(ctx)
            try:
                await self.sharing.learn(
                    lambda: self.open(details, downstream, listens_within=_LISTEN_SECONDS), user, details.capabilities
                )
            except ConnectionClosedError as error:
                raise self.opener.names.failure(error) from error
        return self.sharing.may_share(details.capabilities, self.target_is_stateless is True)

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
        session.client = None if ctx.connection_state.session_id is None else session_key(ctx)
        try:
            return await session.connection.get(lambda: session.client)
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
        session.subscribing += 1
        try:
            await session.watches.add(uri, outside, ctx)
        finally:
            session.subscribing -= 1
            self._end_idle_later(session)

    async def open_session(self, ctx: ServerContext) -> ProxySession:
        """Return the connection of a client's session, which is open. Raises JSONRPCError."""
        session = self.of_session(ctx)
        if self.connected is None:
            await self._opened(session, ctx)
            if ctx.connection_state.session_id is not None and self.sharing.remove(ctx.connection_state):
                self.teller.remove(ctx.connection_state)  # It hears of changes over its own connection.
        return session

    async def unsubscribe(self, ctx: ServerContext, outside: str) -> None:
        """End one subscription to a resource."""
        if (session := self._of_sessions.get(ctx.connection_state)) is not None:
            await session.watches.remove(outside)
            self._end_idle_later(session)

    def existing(self, state: ConnectionState) -> RelayedTarget | None:
        """Return the connection of a session if it is open."""
        session = self._of_sessions.get(state)
        connection = None if session is None else session.connection.present
        return None if connection is None else self._target(connection)

    def is_opening(self, ctx: ServerContext) -> bool:
        """Return True while a connection for a client opens."""
        session = self._of_sessions.get(ctx.connection_state)
        if ctx.connection_state.session_id is not None:
            is_opening = session is not None and session.connection.is_opening
            return is_opening or self.sharing.is_learning or self._session_pool.is_opening(self._borrower(ctx)[0])
        return self._pool.is_opening(self._borrower(ctx)[0])

    def watched(self) -> list[tuple[ServerContext, str, str]]:
        """Return who watches what, as `Watches.all` does."""
        return [watch for session in self._of_sessions.values() for watch in session.watches.all()]

    def unwatch(self) -> None:
        """End the subscriptions to resources of all connections."""
        for session in self._of_sessions.values():
            session.unwatch()

    def _end_session(self, state: ConnectionState) -> None:
        if (session := self._of_sessions.pop(state, None)) is not None:
            self._end(session)
        if self.sharing.remove(state):
            self._close_idle_later(self._session_pool)

    def _end(self, session: ProxySession) -> None:
        session.watches.clear()
        if (connection := session.connection.end()) is not None:
            self._close_later(connection)
        self.run_later(session.close())

    # ---- closing -----------------------------------------------------------------------------------------------------

    def _close_idle_later(self, pool: Pool) -> None:
        """Close connections that nothing will have used for some time; those of sessions that go on only by settings,
        because over them the sessions hear of changes."""
        loop, seconds = asyncio.get_running_loop(), self._idle_seconds or _IDLE_SECONDS
        keep = self.sharing.is_used if pool is self._session_pool and self._idle_seconds is None else None
        loop.call_later(seconds, lambda: pool.close_idle(loop.time() - seconds, keep))

    def _end_idle_later(self, session: ProxySession) -> None:
        """Close the connection of a session if nothing will have used it for the time of the settings."""
        loop, seconds = asyncio.get_running_loop(), self._idle_seconds
        if seconds is None:
            return

        def end() -> None:
            if (connection := session.idle_since(loop.time() - seconds)) is not None:
                self._close_later(connection)

        loop.call_later(seconds, end)

    def run_later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what no request waits for in a task of its own, which ends before the connections have ended."""
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _close_later(self, connection: UpstreamConnection) -> asyncio.Task[None]:
        return self.run_later(connection.close())

    async def retire(self) -> None:
        """Close all connections as soon as no request has one."""
        await self._unused.wait()
        await self.close()

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        self.suspended.close()
        await self.sharing.close()
        await asyncio.gather(self._pool.close(), self._session_pool.close())
        for session in list(self._of_sessions.values()):
            self._end(session)
        self._of_sessions.clear()
        while self._ending:
            await asyncio.wait(list(self._ending))


def _nothing() -> None:
    """Give nothing back: the connection belongs to a program."""


def _user_of(ctx: ServerContext) -> str:
    return "" if ctx.user is None else ctx.user.key


async def _notified(connection: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
    await connection.downstream.notified(connection, method, params)


async def _listen(connection: UpstreamConnection) -> None:
    with suppress(JSONRPCError):
        await connection.subscriptions.open()


def is_sessionless(state: ConnectionState) -> bool:
    """Return True for a request of a version with a handshake that is served without a session (`stateless_http`)."""
    return state.session_id is None and not state.is_stateless
