"""The connections of a proxy to its target: one for each session of a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

from ...server.context import ConnectionState, ServerContext
from ...server.dispatcher import ServerDispatcher
from .forwarded_calls import SuspendedCalls
from .front import SessionFront
from .target_connection import Upstream
from .targets import ClientFactory


class Connections:
    """The connections to one target while an app is served, and the calls that wait for their clients."""

    def __init__(self, proxy: str, factory: ClientFactory) -> None:
        """Create the connections; none is open.

        Args:
            proxy: The name of the proxy, for messages.
            factory: Makes the clients.
        """
        self.suspended = SuspendedCalls(proxy)
        self._proxy, self._factory = proxy, factory
        self._of_sessions: WeakKeyDictionary[ConnectionState, asyncio.Task[Upstream]] = WeakKeyDictionary()
        self._open: set[Upstream] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def of_session(self, ctx: ServerContext) -> Upstream:
        """Return the connection of a client's session; all requests without sessions share one.

        Raises JSONRPCError if the target cannot be reached.
        """
        state = ctx.connection_state
        opening = self._of_sessions.get(state)
        if opening is None or (opening.done() and not _is_open(opening)):
            if opening is None:
                state.on_detach += (lambda: self._end_session(state),)
            elif not opening.cancelled() and opening.exception() is None:
                self._close_later(opening.result())
            front = SessionFront(cast(ServerDispatcher, state))
            opening = self._of_sessions[state] = asyncio.create_task(self._opened(front, ctx))
        return await asyncio.shield(opening)

    @asynccontextmanager
    async def of_request(self, ctx: ServerContext) -> AsyncGenerator[Upstream]:
        """Open a connection for one request, and close it at the end."""
        upstream = await self._opened(None, ctx)
        try:
            yield upstream
        finally:
            self._close_later(upstream)

    def existing(self, state: ConnectionState) -> Upstream | None:
        """Return the connection of a session if it is open."""
        opening = self._of_sessions.get(state)
        return opening.result() if opening is not None and _is_open(opening) else None

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        await self.suspended.close()
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

    def _end_session(self, state: ConnectionState) -> None:
        opening = self._of_sessions.pop(state, None)
        if opening is None:
            return
        opening.cancel()
        opening.add_done_callback(self._close_opened)

    def _close_opened(self, opening: asyncio.Task[Upstream]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._close_later(opening.result())

    def _close_later(self, upstream: Upstream) -> None:
        if upstream in self._open:
            self._open.discard(upstream)
            task = asyncio.ensure_future(upstream.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _is_open(opening: asyncio.Task[Upstream]) -> bool:
    """Return True if the connection is open."""
    is_opened: Any = opening.done() and not opening.cancelled() and opening.exception() is None
    return bool(is_opened) and opening.result().is_open
