"""A dispatcher that logs the connection, the calls and the errors of a client with their times."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from ..aio.background import BackgroundTasks
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.meta import request_meta
from ..protocol.models import is_object, plain_of
from ..protocol.revision import META, Handshake
from ..usage.shortened import error_text, shortened
from .call_log import milliseconds, outcome_of, subject_of
from .interfaces import Channel, Dispatcher

if TYPE_CHECKING:
    from pydantic import BaseModel

_log: Final = logging.getLogger("mcp_runtime.server.calls")


class LoggedDispatcher:
    """The dispatcher of a server whose logger `mcp_runtime.server.calls` has the level DEBUG."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Log what another dispatcher does."""
        self._dispatcher = self.wrapped = dispatcher
        self._client = "a client"
        self._opened = perf_counter()
        self._is_detached = False
        self.identify = dispatcher.identify
        self.attach = dispatcher.attach
        self.stamp_server_info = dispatcher.stamp_server_info

    @property
    def background_tasks(self) -> BackgroundTasks:
        """The asyncio tasks that outlive the request that started them."""
        return self._dispatcher.background_tasks

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message, and log how long it took."""
        began, subject = perf_counter(), subject_of(message.row.method, message.params)
        client = _name_of(request_meta(message).get(f"{META}clientInfo")) or self._client
        _log.debug("%s: %s begins", client, subject)
        try:
            result = await self._dispatcher.handle(channel, message)
        except asyncio.CancelledError as error:
            _log.debug("%s: %s was cancelled after %s: %s", client, subject, milliseconds(began), error_text(error))
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error_text(error)}"
            _log.debug("%s: %s failed after %s: %s", client, subject, milliseconds(began), reason)
            raise
        if isinstance(message, RequestReceived):
            _log.debug("%s: %s has %s after %s", client, subject, outcome_of(result), milliseconds(began))
        return result

    def initialize(self, connection: Connection, request: RequestReceived) -> BaseModel | None:
        """Negotiate the protocol version, and log the client and the version."""
        lifecycle = connection.revision.lifecycle
        assert isinstance(lifecycle, Handshake), "only a handshake lifecycle has an initialize request"
        info = plain_of(request.params).get(lifecycle.fields.client_info)
        self._client = _name_of(info) or self._client
        result = self._dispatcher.initialize(connection, request)
        version = info.get("version") if is_object(info) else None
        _log.debug("%s %s has connected with %s", self._client, shortened(str(version)), connection.revision.id)
        return result

    def detach(self) -> None:
        """End the client's subscriptions, and log how long the connection lasted."""
        self._dispatcher.detach()
        if not self._is_detached:
            self._is_detached = True
            _log.debug("%s has disconnected after %s", self._client, milliseconds(self._opened))


def _name_of(info: object) -> str | None:
    name = info.get("name") if is_object(info) else None
    return shortened(name) if isinstance(name, str) else None
