"""The connections of requests without a session: many requests share one, others have one for themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from ...errors import JSONRPCError, RemoteJSONRPCError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.revision import META
from ...server.context import ServerContext
from .front import session_capabilities
from .target_connection import Upstream

MAX_CONNECTIONS: Final = 16
_WAIT_SECONDS: Final = 60.0  # Seconds that a request waits for a connection.
_LOOK_SECONDS: Final = 0.5  # How often a request that waits looks for calls that wait for their clients.
_IDLE_SECONDS: Final = 60.0  # Seconds after which an unused connection is closed.
_INPUT_REQUESTS: Final = ("elicitation", "sampling", "roots")

_Key = tuple[str, str, bool]


class _SharedConnection:
    """A connection that requests share; `opening` ends with it."""

    def __init__(self, opening: asyncio.Task[Upstream]) -> None:
        self.opening, self.users = opening, 0

    @property
    def is_usable(self) -> bool:
        """True if it is open or opens."""
        return not self.opening.done() or is_open(self.opening)


class ConnectionPool:
    """A bounded number of connections for requests without a session.

    The target names no request in what it asks, and in log messages. So a request whose client answers questions, or
    wants log messages, has a connection for itself while it runs; the others share one. Only requests of one user, with
    the same capabilities, use the same connection.
    """

    def __init__(
        self,
        proxy: str,
        limit: int,
        open: Callable[[ServerContext], Awaitable[Upstream]],
        close: Callable[[Upstream], asyncio.Task[None] | None],
        end_waiting: Callable[[], None],
    ) -> None:
        """Create a pool without connections.

        Args:
            proxy: The name of the proxy, for messages.
            limit: The number of connections.
            open: Opens a connection with the capabilities of a request.
            close: Closes one in a task; None if it is closed already.
            end_waiting: Called while requests wait, to end a call whose client does not answer.
        """
        self._proxy, self._limit, self._open, self._close, self._end_waiting = proxy, limit, open, close, end_waiting
        self._places = asyncio.Semaphore(limit)  # Those of connections that are used, or are closing.
        self._used = 0
        self._shared: dict[_Key, _SharedConnection] = {}
        self._idle: list[tuple[_Key, Upstream, float]] = []
        self._opening: set[asyncio.Task[Upstream]] = set()

    @asynccontextmanager
    async def connection(self, ctx: ServerContext) -> AsyncGenerator[Upstream]:
        """Yield a connection for a request. Raises JSONRPCError if there is none in time."""
        capabilities = session_capabilities(ctx)
        exclusive = f"{META}logLevel" in ctx.meta or any(name in capabilities for name in _INPUT_REQUESTS)
        user = "" if ctx.user is None else ctx.user.key
        key = user, json.dumps(capabilities, sort_keys=True), exclusive
        if not exclusive:
            async with self._shared_connection(key, ctx) as upstream:
                yield upstream
            return
        upstream, has_ended = await self._entered(key, ctx), False
        try:
            yield upstream
            has_ended = True
        except JSONRPCError as error:
            has_ended = isinstance(error.__cause__, RemoteJSONRPCError)
            raise
        finally:  # What the target still does for a request that was cancelled is not for the next one.
            self._leave(key, upstream, is_reusable=has_ended)

    @asynccontextmanager
    async def _shared_connection(self, key: _Key, ctx: ServerContext) -> AsyncGenerator[Upstream]:
        shared = self._shared.get(key)
        if shared is None or not shared.is_usable:
            shared = self._shared[key] = _SharedConnection(asyncio.create_task(self._entered(key, ctx)))
        shared.users += 1
        try:
            yield await asyncio.shield(shared.opening)
        finally:
            shared.users -= 1
            if not shared.users:
                self._end_shared(key, shared)

    def _end_shared(self, key: _Key, shared: _SharedConnection) -> None:
        if self._shared.get(key) is shared:
            del self._shared[key]
        if shared.opening.done():
            self._opened_for_nobody(key, shared.opening)
        else:
            shared.opening.cancel()

    # ---- places ------------------------------------------------------------------------------------------------------

    async def _entered(self, key: _Key, ctx: ServerContext) -> Upstream:
        """Return a connection when there is a place for it. One that nobody waits for any more is for the next one."""
        await self._enter()
        opening = asyncio.create_task(self._reused_or_opened(key, ctx))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(partial(self._opened_for_nobody, key))
            raise

    async def _reused_or_opened(self, key: _Key, ctx: ServerContext) -> Upstream:
        try:
            for item in [item for item in self._idle if not item[1].is_open]:
                self._idle.remove(item)
                self._close(item[1])
            for place, (other, upstream, _) in reversed([*enumerate(self._idle)]):
                if other == key:
                    del self._idle[place]
                    return upstream
            if self._used + len(self._idle) > self._limit and (closing := self._close(self._idle.pop(0)[1])):
                await asyncio.wait([closing])
            return await self._open(ctx)
        except BaseException:
            self._release()
            raise

    def _opened_for_nobody(self, key: _Key, opening: asyncio.Task[Upstream]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._leave(key, opening.result(), is_reusable=True)

    async def _enter(self) -> None:
        """Wait for a place, in the order of requests."""
        entering = asyncio.ensure_future(self._places.acquire())
        has_entered = False
        try:
            for _ in range(round(_WAIT_SECONDS / _LOOK_SECONDS)):
                if (await asyncio.wait([entering], timeout=_LOOK_SECONDS))[0]:
                    has_entered = True
                    self._used += 1
                    return
                self._end_waiting()
        finally:
            if not has_entered and not entering.cancel():
                self._places.release()
        raise JSONRPCError(
            INTERNAL_ERROR,
            f"all {self._limit} connections of {self._proxy!r} were in use for {_WAIT_SECONDS:g} s: set connections to"
            " a higher number",
        )

    def _release(self) -> None:
        self._used -= 1
        self._places.release()

    def _leave(self, key: _Key, upstream: Upstream, is_reusable: bool) -> None:
        """Keep a connection for the next request, or close it; only then its place is free."""
        loop = asyncio.get_running_loop()
        if is_reusable and upstream.is_open:
            self._idle.append((key, upstream, loop.time()))
            loop.call_later(_IDLE_SECONDS, self._expire)
            self._release()
        elif (closing := self._close(upstream)) is not None:
            closing.add_done_callback(lambda _: self._release())
        else:
            self._release()

    def _expire(self) -> None:
        since = asyncio.get_running_loop().time() - _IDLE_SECONDS
        expired = [upstream for _, upstream, time in self._idle if time <= since]
        self._idle = [item for item in self._idle if item[1] not in expired]
        for upstream in expired:
            self._close(upstream)

    async def close(self) -> None:
        """End the requests that wait for a connection; the open ones are closed with those of the proxy."""
        opening = [*self._opening, *(item.opening for item in self._shared.values() if not item.opening.done())]
        self._idle = []
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)


def is_open(opening: asyncio.Task[Any]) -> bool:
    """Return True if a connection was opened, and is open."""
    has_opened = opening.done() and not opening.cancelled() and opening.exception() is None
    return has_opened and bool(opening.result().is_open)
