"""Responses to POST requests that are always one JSON body: messages before the response do not open an SSE stream."""

from __future__ import annotations

import logging
from typing import Any, Final

from ...protocol.revision import Notification, Stateless
from .responders import SessionResponder, StatelessResponder

_log: Final = logging.getLogger(__name__)


class JSONSessionResponder(SessionResponder):
    """The response to a POST of a session. Other messages go to the stream that the client has opened by GET."""

    async def wait_until_decided(self, timeout: float | None) -> None:
        """Wait for the response, however long it takes."""
        await super().wait_until_decided(None)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification on the standalone stream."""
        await self._session.send_notification(row, params)

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Close the connection of the session's own stream; the response has none."""
        if standalone:
            super().close_sse_stream(standalone)

    def _send(self, message: bytes) -> None:
        self._session.transport.send(message)


class JSONStatelessResponder(StatelessResponder):
    """The response to a stateless POST. Notifications are dropped, since there is no other stream for them; only the
    response to a subscription is an SSE stream, as in the specification."""

    _is_subscription = False

    async def wait_until_decided(self, timeout: float | None) -> None:
        """Wait for the response, however long it takes."""
        await super().wait_until_decided(None)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification of a subscription, and drop any other."""
        lifecycle = self.connection.revision.lifecycle
        if isinstance(lifecycle, Stateless) and row is lifecycle.acknowledged:
            self._is_subscription = True
        if self._is_subscription:
            await super().send_notification(row, params)
            return
        _log.debug("json_response: %r is not sent", row.method)
