"""A stream of events goes in, and its events come out to its end, also where the connection breaks off meanwhile."""

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

_TRANSIENT_STATUSES: Final = (408, 425, 429, 500, 502, 503, 504)  # Statuses after which a second try may do.
_MAX_FAILURES: Final = 6


class ResumableEventStream:
    """One stream. Where its connection ends before the stream is `over`, it is opened again after the last event that
    arrived, and nothing is lost or doubled; `lasting` streams are opened again also where no event had an id."""

    def __init__(
        self, http: HTTPConnection, headers: Callable[[], dict[str, str]], reconnect_without_ids: bool
    ) -> None:
        self.ended = False
        self._http = http
        self._headers = headers
        self._reconnect_without_ids = reconnect_without_ids
        self._failures = 0

    async def events(self, response: httpx2.Response | None = None) -> AsyncGenerator[ServerSentEvent, None]:
        """The events. Raises MCPError where the stream cannot be opened, or not again."""
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
                await asyncio.sleep(reconnect_delay(self._failures, events.retry, random.random()))
                self._failures += 1
                events = self._http.decoder(events)
        finally:
            if response is not None:
                await response.aclose()

    async def _open(self, events: SSEDecoder) -> httpx2.Response | None:
        """The stream, opened by GET; None for a failure that may pass."""
        last = {LAST_EVENT_ID: events.last_id} if events.last_id else {}
        try:
            response = await self._http.send("GET", {**self._headers(), **last})
        except ConnectionClosedError:
            if self._failures >= _MAX_FAILURES and not self._reconnect_without_ids:
                raise
            return None
        try:
            self._http.check_stream(response)
        except BaseException as fault:
            await response.aclose()
            passes = isinstance(fault, HTTPStatusError) and fault.status in _TRANSIENT_STATUSES
            if passes and (self._reconnect_without_ids or self._failures < _MAX_FAILURES):
                return None
            raise
        return response
