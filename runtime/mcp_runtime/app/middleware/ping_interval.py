"""Middleware that pings clients, so that proxies and servers do not close connections that nobody uses."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final
from weakref import WeakSet

from ...errors import ConnectionClosedError, LocalError, MCPError
from ...protocol.revision import Handshake
from ...server.context import ConnectionState
from ...session.options import DEFAULT_OPTIONS
from .hooks import CallNext, Middleware, MiddlewareContext

_log: Final = logging.getLogger(__name__)


class PingMiddleware(Middleware):
    """Ping each client at an interval, from its first message until its session ends.

    Protocol versions without sessions have no pings: their clients get none.
    """

    def __init__(self, interval_ms: int = 30_000) -> None:
        """Create a middleware. Raises LocalError if the interval is not above 0.

        Args:
            interval_ms: Milliseconds between two pings.
        """
        if interval_ms <= 0:
            raise LocalError(
                f"PingMiddleware(): interval_ms must be a number of milliseconds above 0, not {interval_ms}"
            )
        self.interval_ms = interval_ms
        self._pinged: WeakSet[ConnectionState] = WeakSet()

    async def on_message(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Start to ping a client at its first message."""
        state: ConnectionState = context.ctx.connection_state
        if state not in self._pinged and not state.is_stateless:
            self._pinged.add(state)
            state.background_tasks.add(asyncio.ensure_future(self._ping(state)))
        return await call_next(context)

    async def _ping(self, state: ConnectionState) -> None:
        while True:
            await asyncio.sleep(self.interval_ms / 1000)
            channel = state.session_channel
            lifecycle = None if channel is None else channel.connection.revision.lifecycle
            if channel is None or not isinstance(lifecycle, Handshake):
                continue
            row: Any = channel.connection.revision.table("server_to_client")[lifecycle.ping_request.method]
            try:
                await channel.send_request(row, {}, DEFAULT_OPTIONS)
            except ConnectionClosedError:
                return
            except MCPError as error:  # Such as a time-out; the session ends by its own rules.
                _log.debug("a ping was not answered: %s", error)
