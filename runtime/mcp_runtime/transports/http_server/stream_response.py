"""Send an SSE stream as an ASGI response."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from functools import partial
from typing import Final

from ...aio.keepalive import KeepAliveTimer
from ...http.asgi import HeldResponse, PartedResponse, Send
from ...http.headers import EVENT_STREAM, Raw
from ...protocol.sse import KEEP_ALIVE_COMMENT
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
    holds: bool = False,
    max_seconds: float | None = None,
) -> None:
    """Send a stream over one HTTP connection until the stream ends or the client disconnects.

    With `holds`, this may return when there is nothing to send, and the stream goes on.

    Args:
        stream: The stream; any other connection is detached from it.
        disconnect: Done when the client disconnects; cancelled afterwards.
        send: ASGI function.
        keep_alive: Timer for keep-alive comments.
        more: Further headers of the response.
        first: An encoded event to send before those of the stream.
        after: Number of the message to send from, see `SSEStream.pump`.
        priming_event: Begin with an empty event, see `SSEStream.pump`.
        holds: Return when there is nothing to send, if the server can go on with the stream.
        max_seconds: Seconds after which a stream that goes on ends. Default None: it has no such limit.
    """
    response = PartedResponse(send, (*_STREAM, *more) if more else _STREAM)
    release = stream.release
    until = None if max_seconds is None else asyncio.get_running_loop().time() + max_seconds
    hold = partial(_hold, stream, disconnect, response, keep_alive, until) if holds else None
    stream.attach(disconnect)
    disconnect.add_done_callback(release)
    try:
        if first:
            response.add(first)
        if await stream.pump(disconnect, response, keep_alive, after, priming_event, hold):
            await response.end()
    except OSError as error:
        _log.debug("a client disconnected from its stream: %s", error)
    finally:
        disconnect.remove_done_callback(release)  # Called here, which saves an iteration of the event loop.
        release(disconnect)
        disconnect.cancel()


def _hold(
    stream: SSEStream,
    connection: object,
    response: PartedResponse,
    keep_alive: KeepAliveTimer,
    until: float | None,
    cursor: int,
) -> bool:
    """Let a stream go on without a task, from a number on; return False if the server cannot do that."""
    held = HeldStream(stream, keep_alive, cursor) if until is None else LimitedStream(stream, keep_alive, cursor, until)
    if (rest := response.hold(held)) is None:
        return False
    stream.exchange(connection, held)
    held.wait(rest)
    return True


class HeldStream:
    """A stream that is sent over an open connection, without a task while there is nothing to send: very many wait."""

    __slots__ = ("_stream", "_keep_alive", "_cursor", "_response")

    def __init__(self, stream: SSEStream, keep_alive: KeepAliveTimer, cursor: int) -> None:
        """Go on with a stream after the message of this number."""
        self._stream = stream
        self._keep_alive = keep_alive
        self._cursor = cursor
        self._response: HeldResponse | None = None  # None while it is sent, and at the end.

    def wait(self, response: HeldResponse) -> None:
        """Wait until there is something to send."""
        self._response = response
        self._stream.begin_waiting(self)
        self._keep_alive.begin(self)

    def done(self) -> bool:
        """Return True if it does not wait."""
        return self._response is None

    def set_result(self, is_new: bool) -> None:
        """Send what is new, or else a comment, in the next iteration of the event loop."""
        if (response := self._response) is None:
            return
        self._response = None
        self._keep_alive.end(self)
        self._stream.end_waiting(self)
        # Without the context of what has woken it: the stream sends for all.
        asyncio.get_running_loop().call_soon(response.begin, partial(self._send, response, is_new), context=Context())

    def on_disconnect(self) -> None:
        """Send no more: the client has disconnected, or may get no more."""
        self._stream.release(self)

    async def _send(self, held: HeldResponse, is_new: bool) -> None:
        """Send what there is, and wait again."""
        response, has_failed = PartedResponse(held.send, None), True
        try:
            if not is_new:
                response.add(KEEP_ALIVE_COMMENT)
                await response.flush()
            cursor = await self._stream.send_new(self, response, self._cursor)
            if cursor is None:
                await response.end()
            else:
                self._cursor = cursor
                self.wait(held)
            has_failed = False
        except Exception:
            _log.exception("a stream ended with an error")
        finally:
            if has_failed:
                held.abort()
            if self.done():
                self._end()

    def _end(self) -> None:
        self._stream.release(self)


class LimitedStream(HeldStream):
    """The same, until a time of the event loop: that at which the token of the client expires."""

    __slots__ = ("_until", "_timer")

    def __init__(self, stream: SSEStream, keep_alive: KeepAliveTimer, cursor: int, until: float) -> None:
        """Go on with a stream after the message of this number."""
        super().__init__(stream, keep_alive, cursor)
        self._until = until
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, response: HeldResponse) -> None:
        """Wait until there is something to send, or the time has come."""
        super().wait(response)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(self._until, self.on_disconnect)

    def _end(self) -> None:
        super()._end()
        if self._timer is not None:
            self._timer.cancel()
