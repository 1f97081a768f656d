"""A dispatcher that logs the connection, the calls and the errors of a client with their times."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from time import perf_counter
from typing import Any, Final

from pydantic import BaseModel

from ...protocol.connection import Connection
from ...protocol.events import NotificationReceived, RequestReceived
from ...session.call_log import milliseconds, outcome_of, subject_of
from ...session.interfaces import Channel
from ..dispatcher import ServerDispatcher

_log: Final = logging.getLogger("mcp_runtime.server.calls")


class LoggedDispatcher(ServerDispatcher):
    """A dispatcher of a server whose logger `mcp_runtime.server.calls` has the level DEBUG."""

    __slots__ = ("_opened", "_is_detached")

    def __init__(self, *arguments: Any) -> None:
        """Create the dispatcher; the arguments are those of ServerDispatcher."""
        super().__init__(*arguments)
        self._opened = perf_counter()
        self._is_detached = False

    def handle(
        self, channel: Channel, message: RequestReceived | NotificationReceived, traced: bool = False
    ) -> Coroutine[Any, Any, Any]:
        """Return an awaitable of the result of a message, which is logged."""
        handled = super().handle(channel, message, traced)
        return handled if traced else self._logged(handled, channel, message)

    async def _logged(
        self, handled: Coroutine[Any, Any, Any], channel: Channel, message: RequestReceived | NotificationReceived
    ) -> Any:
        began, subject = perf_counter(), subject_of(message.row.method, message.params)
        client = self.request_context(channel, message).client_info.get("name") or "a client"  # type: ignore[arg-type]
        _log.debug("%s: %s begins", client, subject)
        try:
            result = await handled
        except asyncio.CancelledError as error:
            _log.debug("%s: %s was cancelled after %s: %s", client, subject, milliseconds(began), error)
            raise
        except Exception as error:
            _log.debug(
                "%s: %s failed after %s: %s: %s", client, subject, milliseconds(began), type(error).__name__, error
            )
            raise
        outcome = outcome_of(result)
        if isinstance(message, RequestReceived):
            _log.debug("%s: %s has %s after %s", client, subject, outcome, milliseconds(began))
        return result

    def initialize(self, connection: Connection, request: RequestReceived) -> BaseModel | None:
        """Negotiate the protocol version, and log the client and the version."""
        result = super().initialize(connection, request)
        _log.debug(
            "%s %s has connected with %s",
            self.client_info.get("name"),
            self.client_info.get("version"),
            connection.revision.id,
        )
        return result

    def detach(self) -> None:
        """Stop sending change notifications, and log how long the connection lasted."""
        super().detach()
        if self._is_detached:
            return
        self._is_detached = True
        name = self.client_info.get("name") or "a client"
        _log.debug("%s has disconnected after %s", name, milliseconds(self._opened))
