"""The client in front of a proxy: send it requests, log messages and change notifications, whatever version it uses.

Each change is told once, however many connections to the target report it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final
from weakref import WeakSet

from pydantic import BaseModel

from mcp_products.versions.adapters import ServerAdapter
from mcp_products.versions.messages import ConvertingChannel
from mcp_runtime.endpoint.context import LEVELS
from mcp_runtime.endpoint.requests import send_notification, send_request
from mcp_runtime.errors import JSONRPCError, MCPError, RemoteJSONRPCError
from mcp_runtime.protocol.connection import NotificationReceived
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import LOG_LEVEL, InputRequest, Notification, own_row
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.session.interfaces import channel_of_connection
from mcp_runtime.session.requests import RequestOptions

_log: Final = logging.getLogger("mcp_runtime.relay.proxy.client_side")

_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.
INPUT_CAPABILITIES: Final = ("elicitation", "sampling", "roots")
_FORWARDED_CAPABILITIES: Final = (*INPUT_CAPABILITIES, "experimental")
CHANGE_PAUSE: Final = 0.5  # Seconds between two notifications of a changed list, however often a target sends one.
GATHERED_SECONDS: Final = 0.1  # Seconds in which the connections of a target report the same change.


def client_capabilities(ctx: ServerContext) -> dict[str, Any]:
    """Return the capabilities of the client that a proxy passes to its target."""
    return {name: value for name, value in ctx.capabilities.items() if name in _FORWARDED_CAPABILITIES}


def session_capabilities(ctx: ServerContext) -> dict[str, Any]:
    """Return the capabilities to declare to the target for all requests of a session.

    Those of roots are in the client's protocol version: only versions with a handshake have changes of roots.
    """
    capabilities = client_capabilities(ctx)
    declared = channel_of_connection(ctx.channel).connection.remote_capabilities
    return {**capabilities, "roots": declared["roots"]} if is_object(declared.get("roots")) else capabilities


def log_level(ctx: ServerContext) -> str | None:
    """Return the minimum level of log messages for the client; None if it gets none."""
    level: str | None = ctx.meta.get(LOG_LEVEL) or ctx.connection_state.log_level
    return level


async def send_input_request(ctx: ServerContext, row: InputRequest[Any], params: Any) -> BaseModel:
    """Send a request of the target to the client, and return its result.

    Raises JSONRPCError with the code and the data of the client's error.
    """
    try:
        result: BaseModel = await send_request(ctx, row, params, _NO_TIMEOUT)
    except JSONRPCError:
        raise
    except RemoteJSONRPCError as error:
        raise JSONRPCError(error.code, error.message, error.data) from error
    except MCPError as error:
        raise JSONRPCError(INTERNAL_ERROR, str(error)) from error
    return result


async def send_log(ctx: ServerContext, row: Notification, params: dict[str, Any]) -> None:
    """Send a log message of the target to the client, if its minimum level allows that."""
    minimum, level = log_level(ctx), params.get("level")
    if minimum is None or level not in LEVELS or LEVELS.index(level) < LEVELS.index(minimum):
        return
    try:
        await send_notification(ctx, row, params)
    except MCPError as error:
        _log.debug("%r was not sent to a client: %s", row.method, error)


async def send_own(ctx: ServerContext, method: str, params: dict[str, Any]) -> None:
    """Send a notification of the target that the protocol does not have to the client."""
    try:
        await send_notification(ctx, own_row(ctx.revision, method, Notification), params)
    except MCPError as error:
        _log.debug("%r was not sent to a client: %s", method, error)


# ---- the session of a client -----------------------------------------------------------------------------------------


def session_context(dispatcher: ServerDispatcher) -> ServerContext | None:
    """Return a context that sends messages over the session; None if the client gets messages in requests only."""
    server, channel = dispatcher.server, dispatcher.session_channel
    if dispatcher.is_stateless or channel is None:
        return None
    if isinstance(server, ServerAdapter):
        channel = ConvertingChannel(server.converter, channel)
    message = NotificationReceived(channel.connection.revision.lifecycle.cancelled, None)
    return dispatcher.origin.context(dispatcher, channel, message)


async def notify_change(dispatcher: ServerDispatcher, name: str, params: Mapping[str, Any]) -> None:
    """Notify the clients of a dispatcher of a change, by the name of its row, if they have subscribed to it, and their
    version has it."""
    rows = dispatcher.server.revision.table("server_to_client").values()
    row = next((row for row in rows if row.name == name), None)
    if not isinstance(row, Notification):
        return
    try:
        if dispatcher.is_stateless or dispatcher.wants(row, params):
            await dispatcher.notify(row, params)
    except MCPError as error:
        _log.debug("%r was not sent to a client: %s", row.method, error)


# ---- changes at the target -------------------------------------------------------------------------------------------


class ChangeTeller:
    """Tells clients: that of a session, or all without sessions that listen.

    A session has a connection of its own. The others share connections, each of which reports a change: what these
    report within a short time is one change.
    """

    def __init__(self, name: str, gathered_seconds: float | None = None) -> None:
        """Create a teller without clients; `name` is that of the proxy, for messages."""
        self.on_list: Callable[[str], None] = lambda kind: None
        """Called at each report of a changed list."""
        self._name = name
        self._gathered_seconds = GATHERED_SECONDS if gathered_seconds is None else gathered_seconds
        self._clients: WeakSet[ServerDispatcher] = WeakSet()
        self._quiet_until: dict[str, float] = {}  # By the kind of a list.
        self._waiting: set[tuple[str, str]] = set()  # What is to be told, once its time has come.
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, client: Any) -> None:
        """Tell the clients of a dispatcher too, as long as it exists."""
        self._clients.add(client)

    def remove(self, client: Any) -> None:
        """Tell the clients of a dispatcher no more."""
        self._clients.discard(client)

    def list_changed(self, kind: str) -> None:
        """Tell of a changed list, once for all changes within a time."""
        self.on_list(kind)
        self._begin(kind, "")

    async def resource_updated(self, uri: str) -> None:
        """Tell of a changed resource: of a session at once, so that a result that follows comes after it."""
        if self._gathered_seconds:
            self._begin("", uri)
        else:
            await self._tell("", uri)

    def _begin(self, kind: str, uri: str) -> None:
        if (kind, uri) not in self._waiting:
            self._waiting.add((kind, uri))
            task = asyncio.get_running_loop().create_task(self._wait(kind, uri))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait(self, kind: str, uri: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(self._quiet_until.get(kind, 0.0) - loop.time(), self._gathered_seconds))
        finally:  # A change from here on is another one: the client may have read this one.
            self._waiting.discard((kind, uri))
        if kind:
            self._quiet_until[kind] = loop.time() + CHANGE_PAUSE
        await self._tell(kind, uri)

    async def _tell(self, kind: str, uri: str) -> None:
        for client in list(self._clients):
            try:
                if kind:
                    await client.notify_lists_changed([kind])
                else:
                    await notify_change(client, "on_resource_updated", {"uri": uri})
            except MCPError as error:
                _log.debug("a change was not sent to a client of %r: %s", self._name, error)

    async def close(self) -> None:
        """End what waits to be told."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
