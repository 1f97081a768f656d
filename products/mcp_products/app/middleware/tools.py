"""A middleware that adds tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakSet

from mcp_runtime.errors import ConnectionClosedError, LocalError, MCPError
from mcp_runtime.protocol.revision import Handshake
from mcp_runtime.server.context import ConnectionState
from mcp_runtime.session.requests import DEFAULT_OPTIONS

from .hooks import CallNext, Middleware, MiddlewareContext

_log: Final = logging.getLogger("mcp_runtime.app.middleware.tools")


class ToolInjectionMiddleware(Middleware):
    """Add tools to the first page of the list, and call them; tools of the app with the same names are replaced."""

    provided_lists = ("tools",)

    def __init__(self, tools: Sequence[Callable[..., Any]]) -> None:
        """Create the middleware of functions. Raises LocalError if there are none."""
        listed: Any = tools
        self._functions: list[Any] = [*listed] if isinstance(listed, (list, tuple)) else []
        if not self._functions or not all(map(callable, self._functions)):
            raise LocalError(f"ToolInjectionMiddleware() needs a list of functions, not {tools!r}: write [function]")
        self._tools: dict[str, Any] | None = None

    async def on_list_tools(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Return the tools of a page, and on the first page those of this middleware."""
        own = self._of_app(context.app)
        items = [tool for tool in await call_next(context) if tool.name not in own]
        if context.message.cursor is not None:
            return items
        return [*(tool.definition for tool in own.values()), *items]

    async def on_call_tool(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Call a tool of this middleware, or pass the call on."""
        tool = self._of_app(context.app).get(context.message.name)
        if tool is None:
            return await call_next(context)
        registry = context.app.registry
        types, shown = registry.result_types(context.name), registry.shown_exceptions
        return await tool.call(context.ctx, context.message.arguments, types, shown)

    def _of_app(self, app: Any) -> dict[str, Any]:
        if self._tools is None:
            self._tools = {tool.name: tool for tool in map(app.make_tool, self._functions)}
        return self._tools


# Middleware that pings clients, so that proxies and servers do not close connections that nobody uses.


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
