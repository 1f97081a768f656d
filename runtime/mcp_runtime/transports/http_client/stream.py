"""A stream of events goes in, and its events come out to its end, also where the connection breaks off meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from typing import Final

import httpx2

from ...errors import NotConnected, Rejected
from ...http.asking import delay
from ...http.headers import LAST_EVENT
from ...sse import Event, Events
from .channel import Channel

_PASSING: Final = (408, 425, 429, 500, 502, 503, 504)  # Statuses after which a second try may do.
_MOST_FAILURES: Final = 6


class Stream:
    """One stream. Where its connection ends before the stream is `over`, it is opened again after the last event that
    arrived, and nothing is lost or doubled; `lasting` streams are opened again also where no event had an id."""

    def __init__(self, channel: Channel, headers: Callable[[], dict[str, str]], lasting: bool) -> None:
        self.over = False
        self._channel = channel
        self._headers = headers
        self._lasting = lasting
        self._failures = 0

    async def events(self, response: httpx2.Response | None = None) -> AsyncGenerator[Event, None]:
        """The events. Raises McpError where the stream cannot be opened, or not again."""
        events = self._channel.decoder()
        try:
            while True:
                if response is None:
                    response = await self._open(events)
                if response is not None:
                    async for event in self._channel.events(response, events):
                        self._failures = 0
                        yield event
                    await response.aclose()
                    response = None
                if self.over or not (self._lasting or events.last_id):
                    return
                await asyncio.sleep(delay(self._failures, events.retry, random.random()))
                self._failures += 1
                events = self._channel.decoder(events)
        finally:
            if response is not None:
                await response.aclose()

    async def _open(self, events: Events) -> httpx2.Response | None:
        """The stream, opened by GET; None for a failure that may pass."""
        last = {LAST_EVENT: events.last_id} if events.last_id else {}
        try:
            response = await self._channel.send("GET", {**self._headers(), **last})
        except NotConnected:
            if self._failures >= _MOST_FAILURES and not self._lasting:
                raise
            return None
        try:
            self._channel.check_stream(response)
        except BaseException as fault:
            await response.aclose()
            passes = isinstance(fault, Rejected) and fault.status in _PASSING
            if passes and (self._lasting or self._failures < _MOST_FAILURES):
                return None
            raise
        return response
