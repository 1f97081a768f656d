"""An SSE stream that is resumed after its connection was cut off.

MCP specification, Transports, Streamable HTTP, "Resumability and Redelivery".
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from typing import Final

import httpx2

from ...errors import ConnectionClosedError, HTTPStatusError
from ...http.client_rules import reconnect_delay
from ...http.headers import LAST_EVENT_ID
from ...protocol.sse import ServerSentEvent, SSEDecoder
from .connection import HTTPConnection

_TRANSIENT_STATUSES: Final = (408, 425, 429, 500, 502, 503, 504)  # Statuses after which a retry may succeed.
_MAX_FAILURES: Final = 6  # Retries in a row without an event.


class ResumableEventStream:
    """One stream. If its connection ends before `ended` is set, it is opened again with `Last-Event-ID`."""

    def __init__(
        self, http: HTTPConnection, headers: Callable[[], dict[str, str]], reconnect_without_ids: bool
    ) -> None:
        """Create a stream; `reconnect_without_ids` reconnects also if no event had an id."""
        self.ended = False
        self._http = http
        self._headers = headers
        self._reconnect_without_ids = reconnect_without_ids
        self.on_close: Callable[[], None] | None = None  # Called when the server closes the stream with a time to wait.
        self._failures = 0

    async def events(self, response: httpx2.Response | None = None) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield the events. Raises MCPError if the stream cannot be opened or resumed."""
        events = self._http.decoder()
        try:
            while True:
                if response is None:
                    response = await self._open(events)
                if response is not None:
                    async for event in self._http.events(response, events):
                        self._failures = 0
                        yield event
                    await response.aclose()
                    response = None
                if self.ended or not (self._reconnect_without_ids or events.last_id):
                    return
                if self.on_close is not None and events.retry is not None:
                    self.on_close()
                await asyncio.sleep(reconnect_delay(self._failures, events.retry, random.random()))
                self._failures += 1
                events = self._http.decoder(events)
        finally:
            if response is not None:
                await response.aclose()

    async def _open(self, events: SSEDecoder) -> httpx2.Response | None:
        """Open the stream by GET; return None after a failure that a retry may solve."""
        last = {LAST_EVENT_ID: events.last_id} if events.last_id else {}
        try:
            response = await self._http.send("GET", {**self._headers(), **last})
        except ConnectionClosedError:
            if self._failures >= _MAX_FAILURES and not self._reconnect_without_ids:
                raise
            return None
        try:
            self._http.check_stream(response)
        except BaseException as error:
            await response.aclose()
            is_transient = isinstance(error, HTTPStatusError) and error.status in _TRANSIENT_STATUSES
            if is_transient and (self._reconnect_without_ids or self._failures < _MAX_FAILURES):
                return None
            raise
        return response
