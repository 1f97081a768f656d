"""The client side of the HTTP+SSE transport of 2024: one SSE stream to receive on, and a URL to POST messages to.

MCP specification of the first revision, Transports, "HTTP with SSE".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final
from urllib.parse import urljoin

from mcp_runtime.aio.tasks import PauseGate
from mcp_runtime.errors import ConnectionClosedError, InvalidResponseError, MCPError
from mcp_runtime.http.client_rules import Outgoing, get_headers, post_headers
from mcp_runtime.http.urls import origin, redact_url
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.framing import LARGE
from mcp_runtime.protocol.jsonrpc import Message
from mcp_runtime.protocol.revision import Revision
from mcp_runtime.transports.http_client.connection import HTTPConnection

_log: Final = logging.getLogger("mcp_runtime.legacy_sse.client")

Receive = Callable[[Message | list[Message]], None]
ReadLarge = Callable[[bytes, Receive], Awaitable[Message | list[Message]]]


class LegacySSEClient:
    """A connection over HTTP+SSE; the first event of the stream names the URL to POST to."""

    def __init__(
        self, http: HTTPConnection, revision: Revision, receive: Receive, read_large: ReadLarge, gate: PauseGate
    ) -> None:
        """Create a connection; `receive` takes its messages, and `read_large` decodes large ones."""
        self.revision = revision
        self._read_large = read_large
        self._http = http
        self._receive = receive
        self._gate = gate
        self._endpoint = ""

    @property
    def endpoint(self) -> str:
        """The URL to send messages to; empty before the server has named it."""
        return self._endpoint

    async def run(self, ready: asyncio.Future[None]) -> None:
        """Open the stream and deliver its messages until it ends.

        `ready` gets its result when messages can be sent, or the error if the stream fails before.
        """
        response, place = None, f"GET {redact_url(self._http.url)}"
        try:
            response = await self._http.send("GET", get_headers(self.revision, None))
            self._http.check_stream(response)
            async with aclosing(self._http.events(response, self._http.decoder())) as events:
                async for event in events:
                    if event.kind == "endpoint":
                        self._endpoint = self._resolve_endpoint(event.data.decode(errors="replace"))
                        if not ready.done():
                            ready.set_result(None)
                    elif not ready.done():
                        raise InvalidResponseError(f"{place}: the first event of the stream has to be 'endpoint'")
                    elif event.kind == "message" and event.data:
                        if len(event.data) > LARGE:
                            message = await self._read_large(event.data, _nothing)
                        else:
                            message = jsonrpc.decode(event.data)
                        await self._gate.wait()
                        self._receive(message)
            if not ready.done():
                raise ConnectionClosedError(f"{place}: the stream ended before its 'endpoint' event")
        except MCPError as error:
            _log.debug("%s", error)
            if not ready.done():
                ready.set_exception(error)
        finally:
            if response is not None:
                await response.aclose()

    def _resolve_endpoint(self, reference: str) -> str:
        """Return the URL to POST to. Raises InvalidResponseError if it has another origin than the stream."""
        target = urljoin(self._http.url, reference)
        try:
            if origin(target) == origin(self._http.url):
                return target
        except ValueError:
            pass
        raise InvalidResponseError("the 'endpoint' event names a URL of another origin than that of the stream")

    async def send(self, message: Outgoing, data: bytes) -> None:
        """Send a message; a response to it arrives on the stream. Raises MCPError if the server does not accept it."""
        async with asyncio.timeout(self._http.options.timeout):
            headers = post_headers(message, self.revision, None, {})
            response = await self._http.send("POST", headers, data, self._endpoint, wait_for_response=False)
            await response.aclose()
            if not 200 <= response.status_code < 300:
                raise self._http.status_error(response)


def _nothing(message: Message | list[Message]) -> None:
    """Leave the JSON of a large message as it is."""
