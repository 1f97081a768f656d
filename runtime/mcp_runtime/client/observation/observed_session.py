"""A session that reports rejected messages, and logs its requests with their times."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import Any, Final

from pydantic import BaseModel

from ...errors import InvalidResponseError
from ...protocol.connection import Connection
from ...protocol.events import Event, MessageRejected
from ...protocol.jsonrpc import Id
from ...protocol.revision import Request
from ...session.call_log import milliseconds, outcome_of, subject_of
from ...session.interfaces import Channel, Reply, RequestTransport, Send, Transport
from ...session.options import RequestOptions
from ...session.session import Session
from ...session.tracing import Handle
from .observer import ClientObserver

_log: Final = logging.getLogger("mcp_runtime.client.calls")


class ObservedSession(Session):
    """The session of a client with callbacks, or whose logger `mcp_runtime.client.calls` has the level DEBUG."""

    __slots__ = ("_observer",)

    def __init__(
        self, observer: ClientObserver, connection: Connection, transport: Transport | RequestTransport, handle: Handle
    ) -> None:
        """Create the session; the arguments after the first are those of Session."""
        super().__init__(connection, transport, handle)
        self._observer = observer

    def handle_event(self, event: Event, reply: Reply, channel: Channel) -> bool:
        """Handle an event, and report a message that is rejected."""
        if isinstance(event, MessageRejected) and not event.is_late:
            self._observer.report(InvalidResponseError(f"the server sent an invalid message: {event.reason}"))
        return super().handle_event(event, reply, channel)

    async def send_request(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
        send: Send | None = None,
        request_id: Id | None = None,
    ) -> BaseModel:
        """Send a request and return its result. Raises MCPError."""
        began, subject = perf_counter(), subject_of(row.method, params)
        _log.debug("%s begins", subject)
        try:
            result = await super().send_request(row, params, options, send, request_id)
        except asyncio.CancelledError as error:
            _log.debug("%s was cancelled after %s: %s", subject, milliseconds(began), error)
            raise
        except Exception as error:
            _log.debug("%s failed after %s: %s: %s", subject, milliseconds(began), type(error).__name__, error)
            raise
        _log.debug("%s has %s after %s", subject, outcome_of(result), milliseconds(began))
        return result
