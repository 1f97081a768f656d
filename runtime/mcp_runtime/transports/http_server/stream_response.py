"""Send an SSE stream as an ASGI response."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ...aio.keepalive import KeepAliveTimer
from ...http.asgi import PartedResponse, Send
from ...http.headers import EVENT_STREAM, Raw
from .streams import SSEStream

_log: Final = logging.getLogger(__name__)

_STREAM: Final[Raw] = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


async def send_empty_stream(send: Send) -> None:
    """Send an SSE response without events."""
    await PartedResponse(send, _STREAM).end()


async def send_stream(
    stream: SSEStream,
    disconnect: asyncio.Future[None],
    send: Send,
    keep_alive: KeepAliveTimer,
    *,
    more: Raw = (),
    first: bytes = b"",
    after: int | None = None,
    priming_event: bool = False,
) -> None:
    """Send a stream over one HTTP connection until the stream ends or the client disconnects.

    Args:
        stream: The stream; any other connection is detached from it.
        disconnect: Done when the client disconnects; cancelled afterwards.
        send: ASGI function.
        keep_alive: Timer for keep-alive comments.
        more: Further headers of the response.
        first: An encoded event to send before those of the stream.
        after: Number of the message to send from, see `SSEStream.pump`.
        priming_event: Begin with an empty event, see `SSEStream.pump`.
    """
    response = PartedResponse(send, (*_STREAM, *more) if more else _STREAM)
    release = stream.release
    stream.attach(disconnect)
    disconnect.add_done_callback(release)
    try:
        if first:
            response.add(first)
        await stream.pump(disconnect, response, keep_alive, after, priming_event)
        await response.end()
    except OSError as error:
        _log.debug("a client disconnected from its stream: %s", error)
    finally:
        disconnect.remove_done_callback(release)  # Called here, which saves an iteration of the event loop.
        release(disconnect)
        disconnect.cancel()
