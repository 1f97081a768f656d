"""The connections of requests without a session: many requests share one, others have one for themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from ...aio.connection_pool import ClientConnections, NoConnectionError
from ...errors import ConnectionClosedError, JSONRPCError, RemoteJSONRPCError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.revision import META
from ...server.context import ServerContext, share_key
from .front import session_capabilities
from .target_connection import Upstream

MAX_CONNECTIONS: Final = 16
_IDLE_SECONDS: Final = 60.0  # Seconds after which an unused connection is closed.
_INPUT_REQUESTS: Final = ("elicitation", "sampling", "roots")


class ConnectionPool:
    """A bounded number of connections for requests without a session.

    The target names no request in what it asks, and in log messages. So a request whose client answers questions, or
    wants log messages, has a connection for itself while it runs; the others share one. Only requests of one user, with
    the same capabilities, use the same connection. Clients have shares of them, see `FairPlaces`: a client is a user,
    or else an address.
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
        self._proxy = proxy
        self._open = open
        self._connections: ClientConnections[Upstream] = ClientConnections(
            limit, close, lambda upstream: upstream.is_open, end_waiting
        )

    @asynccontextmanager
    async def connection(self, ctx: ServerContext) -> AsyncGenerator[Upstream]:
        """Yield a connection for a request. Raises JSONRPCError if there is none in time."""
        capabilities = session_capabilities(ctx)
        exclusive = f"{META}logLevel" in ctx.meta or any(name in capabilities for name in _INPUT_REQUESTS)
        user = "" if ctx.user is None else ctx.user.key
        key = user, json.dumps(capabilities, sort_keys=True), exclusive

        async def open() -> Upstream:
            return await self._open(ctx)

        try:
            lease = await self._connections.acquire(
                share_key(ctx), key, open, lambda _, users: not (exclusive and users), alone=exclusive
            )
        except NoConnectionError as error:
            raise JSONRPCError(INTERNAL_ERROR, error.describe(repr(self._proxy), "connections")) from None
        except ConnectionClosedError as error:
            raise JSONRPCError(INTERNAL_ERROR, f"the target of the proxy {self._proxy!r}: {error}") from error
        has_ended = not exclusive
        try:
            yield lease.connection
            has_ended = True
        except JSONRPCError as error:
            has_ended = has_ended or isinstance(error.__cause__, RemoteJSONRPCError)
            raise
        finally:  # What the target still does for a request that was cancelled is not for the next one.
            self._connections.release(lease, reusable=has_ended)
            asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._expire)

    def _expire(self) -> None:
        self._connections.close_idle(asyncio.get_running_loop().time() - _IDLE_SECONDS)

    async def close(self) -> None:
        """End the requests that wait for a connection, and close those that are unused."""
        await self._connections.close()
