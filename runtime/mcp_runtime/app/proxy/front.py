"""The client in front of a proxy: send it requests, log messages and change notifications, whatever version it uses."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from ...endpoint.context import LEVELS
from ...errors import JSONRPCError, MCPError, RemoteJSONRPCError
from ...protocol.events import NotificationReceived
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.models import is_object
from ...protocol.revision import META, InputRequest, Notification
from ...server.context import ServerContext
from ...server.dispatcher import ServerDispatcher
from ...session.interfaces import channel_of_connection
from ...session.options import RequestOptions
from ...versions.channel import ConvertingChannel
from ...versions.server_adapter import ServerAdapter

_log: Final = logging.getLogger(__name__)

_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.
_FORWARDED_CAPABILITIES: Final = ("elicitation", "sampling", "roots", "experimental")


def client_capabilities(ctx: ServerContext) -> dict[str, Any]:
    """Return the capabilities of the client that a proxy passes to its target."""
    return {name: value for name, value in ctx.capabilities.items() if name in _FORWARDED_CAPABILITIES}


def session_capabilities(ctx: ServerContext) -> dict[str, Any]:
    """Return the capabilities to declare to the target for all requests of a session.

    Those of roots are in the client's protocol version: only versions with a handshake have changes of roots.
    """
    capabilities = client_capabilities(ctx)
    declared = channel_of_connection(ctx._channel).connection.remote_capabilities  # pyright: ignore[reportPrivateUsage]
    return {**capabilities, "roots": declared["roots"]} if is_object(declared.get("roots")) else capabilities


def log_level(ctx: ServerContext) -> str | None:
    """Return the minimum level of log messages for the client; None if it gets none."""
    level: str | None = ctx.meta.get(f"{META}logLevel") or ctx.connection_state.log_level
    return level


async def send_input_request(ctx: ServerContext, row: InputRequest[Any], params: Any) -> BaseModel:
    """Send a request of the target to the client, and return its result.

    Raises JSONRPCError with the code and the data of the client's error.
    """
    try:
        result: BaseModel = await ctx._send_request(row, params, _NO_TIMEOUT)  # pyright: ignore[reportPrivateUsage]
    except JSONRPCError:
        raise
    except RemoteJSONRPCError as error:
        raise JSONRPCError(error.code, error.message, error.data) from error
    except MCPError as error:
        raise JSONRPCError(INTERNAL_ERROR, str(error)) from error
    return result


async def send_log(ctx: ServerContext, row: Notification, params: Any) -> None:
    """Send a log message of the target to the client, if its minimum level allows that."""
    minimum = log_level(ctx)
    if minimum is not None and LEVELS.index(params.level) >= LEVELS.index(minimum):
        await _send_notification(ctx, row, params)


async def _send_notification(ctx: ServerContext, row: Notification, params: Any) -> None:
    try:
        await ctx._send_notification(row, params, None)  # pyright: ignore[reportPrivateUsage]
    except MCPError as error:
        _log.debug("%r was not sent to a client: %s", row.method, error)


class SessionFront:
    """The session of a client, for messages of the target that belong to no request."""

    def __init__(self, dispatcher: ServerDispatcher) -> None:
        """Create the front of the client of a dispatcher."""
        self._dispatcher = dispatcher

    def context(self) -> ServerContext | None:
        """Return a context that sends messages over the session; None if the client gets messages in requests only."""
        dispatcher = self._dispatcher
        server, channel = dispatcher._server, dispatcher._session  # pyright: ignore[reportPrivateUsage]
        if dispatcher.is_stateless or channel is None:
            return None
        if isinstance(server, ServerAdapter):
            channel = ConvertingChannel(server._converter, channel)  # pyright: ignore[reportPrivateUsage]
        origin = server._origin  # pyright: ignore[reportPrivateUsage]
        message = NotificationReceived(channel.connection.revision.lifecycle.cancelled, None)
        return origin.context(dispatcher, channel, message)

    async def list_changed(self, name: str) -> None:
        """Notify the client that a list has changed: "tools", "resources" or "prompts"."""
        await self._dispatcher.notify_lists_changed([name])

    async def resource_updated(self, uri: str) -> None:
        """Notify the client that a resource has changed, if it has subscribed to it."""
        await self._notify("on_resource_updated", {"uri": uri})

    async def elicitation_complete(self, params: Mapping[str, Any]) -> None:
        """Notify the client that an elicitation at a URL has ended, if its version has that notification."""
        await self._notify("on_elicitation_complete", params)

    async def _notify(self, name: str, params: Mapping[str, Any]) -> None:
        dispatcher = self._dispatcher
        revision = dispatcher._server.revision  # pyright: ignore[reportPrivateUsage]
        row = next((row for row in revision.table("server_to_client").values() if row.name == name), None)
        if not isinstance(row, Notification):
            return
        try:
            if dispatcher.is_stateless:
                await dispatcher.origin._announce(row, params, None)  # pyright: ignore[reportPrivateUsage]
            elif dispatcher.wants(row, params):
                await dispatcher.notify(row, params)
        except MCPError as error:
            _log.debug("%r was not sent to a client: %s", row.method, error)
