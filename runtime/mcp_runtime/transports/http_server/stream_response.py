"""Send an SSE stream as an ASGI response."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from ...aio.keepalive import KeepAliveTimer
from ...http.asgi import Send
from ...http.headers import EVENT_STREAM, Raw
from .streams import SSEStream

_log: Final = logging.getLogger(__name__)

_STREAM: Final = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


async def begin_stream(send: Send, more: Raw = ()) -> None:
    """Send status and headers of an SSE response."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *more]})


async def end_stream(send: Send) -> None:
    """Send the end of an SSE response."""
    await send({"type": "http.response.body", "body": b""})


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
    write = partial(_send_part, send)
    stream.attach(disconnect)
    disconnect.add_done_callback(stream.release)
    try:
        await begin_stream(send, more)
        if first:
            await write(first)
        await stream.pump(disconnect, write, keep_alive, after, priming_event)
        await end_stream(send)
    except OSError as error:
        _log.debug("a client disconnected from its stream: %s", error)
    finally:
        stream.release(disconnect)
        disconnect.cancel()


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})
