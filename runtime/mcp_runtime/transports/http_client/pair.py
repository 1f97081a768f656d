"""Messages go in, each a POST to the address that the server named; all it says comes out of one stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from urllib.parse import urljoin

from ... import jsonrpc
from ...errors import InvalidResponse, McpError, NotConnected
from ...exchange import log
from ...http.asking import headers_for, origin, plain
from ...jsonrpc import Message
from ...spec import Revision
from .channel import Channel
from .flow import Flow

Take = Callable[[Message | list[Message]], None]


class Pair:
    """The older way: a stream that the client opens, whose first event says where to POST."""

    def __init__(self, channel: Channel, revision: Revision, take: Take, flow: Flow) -> None:
        self.revision = revision
        self._channel = channel
        self._take = take
        self._flow = flow
        self._endpoint = ""

    async def run(self, opened: asyncio.Future[None]) -> None:
        """Open the stream and hand over what it says until it ends; `opened` is done once messages can be sent."""
        response = None
        try:
            response = await self._channel.send("GET", headers_for(None, self.revision, None, {}))
            self._channel.check_stream(response)
            async with aclosing(self._channel.events(response, self._channel.decoder())) as events:
                async for event in events:
                    if event.kind == "endpoint":
                        self._endpoint = self._within(event.data.decode(errors="replace"))
                        if not opened.done():
                            opened.set_result(None)
                    elif not opened.done():
                        raise InvalidResponse(f"GET {plain(self._channel.url)}: the first event has to be 'endpoint'")
                    elif event.kind == "message" and event.data:
                        await self._flow.wait()
                        self._take(jsonrpc.decode(event.data))
            if not opened.done():
                raise NotConnected(f"GET {plain(self._channel.url)}: the stream ended before its 'endpoint' event")
        except McpError as fault:
            log.debug("%s", fault)
            if not opened.done():
                opened.set_exception(fault)
        finally:
            if response is not None:
                await response.aclose()

    def _within(self, said: str) -> str:
        """The address to send to. Raises InvalidResponse for one of another origin."""
        target = urljoin(self._channel.url, said)
        try:
            if origin(target) == origin(self._channel.url):
                return target
        except ValueError:
            pass
        raise InvalidResponse("the 'endpoint' event names an address of another origin than that of the stream")

    async def send(self, message: Message | list[Message], data: bytes) -> None:
        """Send any message; an answer comes by the stream. Raises McpError where it is not accepted."""
        async with asyncio.timeout(self._channel.reach.timeout):
            headers = headers_for(message, self.revision, None, {})
            response = await self._channel.send("POST", headers, data, self._endpoint, patient=False)
            await response.aclose()
            if not 200 <= response.status_code < 300:
                raise self._channel.rejected(response)
