"""`StreamableHTTPTransport` of the official SDK: the part of `streamable_http_client` that programs extend."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcp_runtime.errors import HTTPStatusError, MCPError

from ..forms.form import FORM, written
from ..streams.bridges import HTTPStreams, http_library, status_error
from ..streams.message import SessionMessage
from ..transports import http_transport


@dataclass
class PostContext:
    """A message that is sent by POST."""

    client: Any
    session_id: str | None
    session_message: SessionMessage
    metadata: Any = None
    read_stream_writer: Any = None


class StreamableHTTPTransport:
    """The messages of a session as HTTP requests, each through `_handle_post_request`."""

    def __init__(self, url: str) -> None:
        """Create a transport for the server at a URL."""
        self.url = url
        self._streams: HTTPStreams | None = None
        self._transport: Any = None

    @property
    def session_id(self) -> str | None:
        """The id of the session; None if the server has opened none."""
        return None if self._transport is None else self._transport.session_id

    def get_session_id(self) -> str | None:
        """Return the id of the session; None if the server has opened none."""
        return self.session_id

    def _is_initialized_notification(self, message: Any) -> bool:
        return written(message).get("method") == FORM.method("InitializedNotification")

    async def post_writer(
        self,
        client: Any,
        write_stream_reader: Any,
        read_stream_writer: Any,
        write_stream: Any,
        start_get_stream: Callable[[], None],
        tg: TaskGroup,
    ) -> None:
        """Send the messages of a stream until it ends, with an HTTP client."""
        self._transport = http_transport(self.url, client=client)
        self._transport.ends_session = False  # `terminate_session` does.
        received, unread = anyio.create_memory_object_stream[Any](math.inf)  # The stream of the program may be full.
        self._streams = HTTPStreams(self._transport, received, tg)
        self._transport.set_sink(self._streams)
        tg.start_soon(_pass_on, unread, read_stream_writer)
        try:
            async with write_stream_reader:
                async for message in write_stream_reader:
                    context = PostContext(client, self.session_id, message, message.metadata, read_stream_writer)
                    await self._handle_post_request(context)
        finally:
            received.close()
            await self._transport.close()

    async def _handle_post_request(self, context: Any) -> None:
        """Send one message. Raises the HTTP error for a notification that the server refuses."""
        assert self._streams is not None, "post_writer has begun"
        try:
            await self._streams.send(context.session_message)
        except HTTPStatusError as error:
            raise status_error(error, self.url) from error
        except MCPError as error:
            raise http_library().TransportError(str(error)) from error

    async def handle_get_stream(self, client: Any, read_stream_writer: Any) -> None:
        """Do nothing: the transport opens the stream of the session itself."""

    async def terminate_session(self, client: Any) -> None:
        """Tell the server that the session has ended."""
        if self._transport is not None:
            self._transport.ends_session = True
            await self._transport.close()


async def _pass_on(items: Any, stream: Any) -> None:
    async with stream, items:
        async for item in items:
            await stream.send(item)
