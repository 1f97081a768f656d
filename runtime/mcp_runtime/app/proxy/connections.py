"""The connections of a proxy to its target: one for each session of a client, and those of requests without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import cast
from weakref import WeakKeyDictionary

from ...aio.shared_work import joined
from ...errors import ConnectionClosedError, JSONRPCError
from ...http.session_places import SessionPlaces
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...server.context import ConnectionState, ServerContext, session_key
from ...server.dispatcher import ServerDispatcher
from .connection_pool import MAX_CONNECTIONS, ConnectionPool
from .forwarded_calls import SuspendedCalls
from .front import SessionFront
from .target_connection import Upstream
from .targets import ClientFactory


class _NoSession:
    """Stands for the session of all requests of versions with a handshake that are served without sessions."""


class Connections:
    """The connections to one target while an app is served, and the calls that wait for their clients."""

    def __init__(
        self, proxy: str, factory: ClientFactory, limit: int = MAX_CONNECTIONS, places: SessionPlaces | None = None
    ) -> None:
        """Create the connections; none is open.

        Args:
            proxy: The name of the proxy, for messages.
            factory: Makes the clients.
            limit: The number of connections of requests without a session.
            places: Those of sessions, which clients share. Default None: no limit.
        """
        self.suspended = SuspendedCalls(proxy)
        self._proxy = proxy
        self._factory = factory
        self._of_sessions: WeakKeyDictionary[ConnectionState | _NoSession, asyncio.Task[Upstream]] = WeakKeyDictionary()
        self._no_session = _NoSession()
        self._places = places
        self._placed: dict[Upstream, Callable[[], None]] = {}
        self._open: set[Upstream] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._pool = ConnectionPool(
            proxy, limit, lambda ctx: self._opened(None, ctx), self._close_later, self.suspended.end_oldest
        )

    async def of_session(self, ctx: ServerContext) -> Upstream:
        """Return the connection of a client's session; all requests without sessions share one.

        Raises JSONRPCError if the target cannot be reached.
        """
        state = ctx.connection_state
        has_session = not is_sessionless(state)
        key = state if has_session else self._no_session
        opening = self._of_sessions.get(key)
        if opening is None or (opening.done() and not _is_open(opening)):
            if opening is None and has_session:
                state.on_detach += (lambda: self._end_session(state),)
            closing = None
            if opening is not None and not opening.cancelled() and opening.exception() is None:
                closing = self._close_later(opening.result())
            front = SessionFront(cast(ServerDispatcher, state)) if has_session else None
            work = self._opened_in_place(front, ctx, closing) if has_session else self._opened(front, ctx)
            opening = asyncio.get_running_loop().create_task(work, context=Context())
            opening.add_done_callback(_note)
            self._of_sessions[key] = opening
        try:
            return await joined(opening, f"the connection of {self._proxy!r}")
        except ConnectionClosedError as error:
            raise JSONRPCError(INTERNAL_ERROR, str(error)) from error

    def of_request(self, ctx: ServerContext) -> AbstractAsyncContextManager[Upstream]:
        """Return a connection for one request without a session, which requests share where nothing could be mixed."""
        return self._pool.connection(ctx)

    def existing(self, state: ConnectionState) -> Upstream | None:
        """Return the connection of a session if it is open."""
        opening = self._of_sessions.get(state)
        return opening.result() if opening is not None and _is_open(opening) else None

    def is_opening(self, ctx: ServerContext) -> bool:
        """Return True while the connection of a client's session opens."""
        state = ctx.connection_state
        opening = self._of_sessions.get(self._no_session if is_sessionless(state) else state)
        return opening is not None and not opening.done()

    def unwatch(self) -> None:
        """End the subscriptions to resources of all connections."""
        for upstream in self._open:
            upstream.unwatch()

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        await self.suspended.close()
        await self._pool.close()
        opening = [task for task in self._of_sessions.values() if not task.done()]
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for upstream in list(self._open):
            self._close_later(upstream)
        if self._closing:
            await asyncio.wait(list(self._closing))

    async def _opened(self, front: SessionFront | None, ctx: ServerContext) -> Upstream:
        upstream = Upstream(self._proxy, self._factory, front)
        await upstream.open(ctx)
        self._open.add(upstream)
        return upstream

    async def _opened_in_place(
        self, front: SessionFront | None, ctx: ServerContext, closing: asyncio.Task[None] | None
    ) -> Upstream:
        """Open the connection of a session; the one that it had before ends first, which has its place.

        Raises NoSessionPlaceError if its client has too many.
        """
        if closing is not None:
            await asyncio.wait([closing])
        if self._places is None or ctx.connection_state.session_id is None:
            return await self._opened(front, ctx)
        give_back = self._places.take(session_key(ctx))
        try:
            upstream = await self._opened(front, ctx)
        except BaseException:
            give_back()
            raise
        self._placed[upstream] = give_back
        return upstream

    def _end_session(self, state: ConnectionState) -> None:
        opening = self._of_sessions.pop(state, None)
        if opening is None:
            return
        opening.cancel()
        opening.add_done_callback(self._close_opened)

    def _close_opened(self, opening: asyncio.Task[Upstream]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._close_later(opening.result())

    def _close_later(self, upstream: Upstream) -> asyncio.Task[None] | None:
        if upstream not in self._open:
            return None
        self._open.discard(upstream)
        task = asyncio.create_task(self._closed(upstream))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _closed(self, upstream: Upstream) -> None:
        try:
            await upstream.close()
        finally:
            if (give_back := self._placed.pop(upstream, None)) is not None:
                give_back()


def _is_open(opening: asyncio.Task[Upstream]) -> bool:
    """Return True if a connection was opened, and is open."""
    return opening.done() and not opening.cancelled() and opening.exception() is None and opening.result().is_open


def _note(opening: asyncio.Task[Upstream]) -> None:
    """Note the error of an opening: those that wait have it, and without one left it is of no interest."""
    if not opening.cancelled():
        opening.exception()


def is_sessionless(state: ConnectionState) -> bool:
    """Return True for a request of a version with a handshake that is served without a session (`stateless_http`)."""
    return state.session_id is None and not state.is_stateless
