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
    """Send the head of a stream."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *more]})


async def end_stream(send: Send) -> None:
    """Send the end of a stream."""
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
    """Send a stream over one connection, until it ends or its client is `leaving`, which is given up then. `first`
    comes before its events; the rest is what `Stream.pump` says."""
    write = partial(_send_part, send)
    stream.attach(disconnect)
    disconnect.add_done_callback(stream.release)
    try:
        await begin_stream(send, more)
        if first:
            await write(first)
        await stream.pump(disconnect, write, keep_alive, after, priming_event)
        await end_stream(send)
    except OSError as fault:
        _log.debug("a client left its stream: %s", fault)
    finally:
        stream.release(disconnect)
        disconnect.cancel()


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})
