"""SSE streams of server messages, independent of the HTTP connections that they are sent over.

MCP specification, Transports, Streamable HTTP, "Resumability and Redelivery".
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Sequence
from contextvars import Context
from functools import partial
from itertools import takewhile
from math import nan
from typing import Final, Protocol

from ...http.asgi import HeldResponse, PartedResponse, Send
from ...http.headers import EVENT_STREAM, Raw
from ...http.sse import KEEP_ALIVE_COMMENT, encode
from ...session.interfaces import RequestAuth
from .events import EventStore, NumberedMessage

# A keep-alive timer for any number of SSE streams.

_SHARED: Final = 1 / 256  # The part of `seconds` within which deadlines are one: very many streams wait.
KEEP_ALIVE: Final = 15.0  # Seconds without a message after which a comment is sent, so that no proxy closes the stream.
_log: Final = logging.getLogger(__name__)
RETRY: Final = 500  # Milliseconds after which a client reconnects to a stream whose connection was closed.
_FULL: Final = 256  # Undelivered messages above which `drain` waits.
_FULL_BYTES: Final = 1 << 20  # Undelivered bytes above which `drain` waits.

_STREAM: Final[Raw] = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class Waiting(Protocol):
    """What waits for something to send: a future, or what does without one."""

    def done(self) -> bool:
        """Return True if it waits no more."""
        ...

    def set_result(self, result: bool, /) -> None:
        """Let it go on, with True if there may be something to send."""


class KeepAliveTimer:
    """Gives what waits the result False if it is not done within `seconds`; one timer handle serves all of them."""

    def __init__(self, seconds: float = KEEP_ALIVE) -> None:
        self.seconds = seconds
        self._deadlines: dict[Waiting, float] = {}  # In their order.
        self._last = nan  # The last deadline.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """The number of streams on which nothing is sent at present."""
        return len(self._deadlines)

    def begin(self, waiting: Waiting) -> None:
        """Set the result to False after `seconds`, unless it is done by then or `end` is called."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.seconds
        if not until - self._last <= self.seconds * _SHARED:
            self._last = until
        self._deadlines[waiting] = self._last
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._on_timer, loop)

    def end(self, waiting: Waiting) -> None:
        """Let something wait without this timer."""
        self._deadlines.pop(waiting, None)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the results that are due. They are in the order of their deadlines: only the first are looked at."""
        self._timer = None
        now = loop.time()
        for waiting, _ in list(takewhile(lambda item: item[1] <= now, self._deadlines.items())):
            self.end(waiting)
            if not waiting.done():
                waiting.set_result(False)
        if self._deadlines:
            self._timer = loop.call_at(next(iter(self._deadlines.values())), self._on_timer, loop)


class SSEStream:
    """One stream of numbered messages. A new connection replaces the attached one, so that no message is sent twice."""

    __slots__ = ("id", "last", "size", "auth", "_delivered_size", "finished", "_store", "_delivered", "_attached",
                 "_was_attached", "_is_notified", "_waiting", "_room", "_closed_connection", "_resumable",
                 "_retry")  # fmt: skip

    def __init__(self, store: EventStore, resumable: bool = True, retry: int = RETRY, id: str = "") -> None:
        self.id = id or secrets.token_urlsafe(16).replace("-", "_")
        self.last = 0
        self.size: int = 0  # Bytes of all messages.
        self.finished = False
        self.auth: RequestAuth | None = None  # That of the request whose messages the stream has.
        self._store = store
        self._delivered = self._delivered_size = 0
        self._attached: object | None = None
        self._was_attached = False
        self._is_notified = False  # True if the state has changed since `pump` last looked at it.
        self._waiting: Waiting | None = None
        self._room: asyncio.Event | None = None
        self._closed_connection = False
        self._resumable = resumable
        self._retry = retry  # Milliseconds after which the client reconnects.

    def put(self, message: bytes) -> None:
        """Send a message; it is stored until the stream is dropped."""
        self.last += 1
        self.size += len(message)
        self._store.add(self.id, self.last, message)
        self._notify()

    def finish(self) -> None:
        """End the stream: the connection ends when all messages are sent."""
        self.finished = True
        self._notify()

    def close_connection(self) -> None:
        """Close the connection, but not the stream, which the client resumes. Without one yet, close the first one."""
        self._closed_connection = self._attached is not None or not self._was_attached
        self._notify()

    def drop(self) -> None:
        """End the stream, and delete its messages."""
        self.finish()
        self._attached = None
        self._store.drop(self.id)

    @property
    def is_attached(self) -> bool:
        """True if a connection is attached."""
        return self._attached is not None

    @property
    def has_undelivered(self) -> bool:
        """True if messages wait for a connection."""
        return self.last > self._delivered

    async def required_scopes(self) -> Collection[str]:
        """Return the scopes that the request of this stream has needed."""
        return () if self.auth is None else self.auth.checked_scopes

    async def drain(self) -> None:
        """Wait while too many messages are undelivered on the attached connection."""
        while self._is_full():
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def _is_full(self) -> bool:
        if self._attached is None:
            return False
        return self.last - self._delivered > _FULL or self.size - self._delivered_size > _FULL_BYTES

    def attach(self, connection: object) -> None:
        """Attach a connection, and detach the previous one."""
        self._attached = connection
        self._was_attached = True
        self._notify()

    def exchange(self, connection: object, other: object) -> None:
        """Let something else stand for the same connection."""
        if self._attached is connection:
            self._attached = other

    def release(self, connection: object) -> None:
        """Detach a connection; messages wait for the next one."""
        if self._attached is connection:
            self._attached = None
            self._make_room()
            self._notify()

    async def pump(
        self,
        connection: object,
        response: PartedResponse,
        keep_alive: KeepAliveTimer,
        after: int | None = None,
        priming_event: bool = False,
        hold: Callable[[int], bool] | None = None,
    ) -> bool:
        """Send messages over an attached connection until the stream is finished, the connection is released, or
        `close_connection` is called. The caller ends the response, with what was added last.

        Return False if `hold`, called with the number of the last message that was sent, has returned True: then
        something else goes on with it.

        Args:
            connection: The attached connection.
            response: The response of the connection.
            keep_alive: Timer after which a comment is sent.
            after: Number of the message to send from. Default None: the last one that was sent.
            priming_event: Begin with an event without data, whose id tells the client where to resume.
            hold: Called when there is nothing to send. Default None: this function waits.
        """
        if priming_event:
            await self._begin(connection)
        cursor = self._delivered if after is None else min(after, self.last)
        if priming_event and self._attached is connection:
            response.add(encode(b"", id=self.event_id(cursor), retry=self._retry))
        while (sent := await self.send_new(connection, response, cursor)) is not None:
            cursor = sent
            if hold is not None and hold(cursor):
                return False
            # Not in its own coroutine, to save memory: very many streams wait at the same time.
            waiting = asyncio.get_running_loop().create_future()
            self.begin_waiting(waiting)
            keep_alive.begin(waiting)
            try:
                is_silent = not await waiting
            finally:
                keep_alive.end(waiting)
                self.end_waiting(waiting)
            if is_silent:
                response.add(KEEP_ALIVE_COMMENT)
                await response.flush()
        return True

    def begin_waiting(self, waiting: Waiting) -> None:
        """Set the result True when there may be something to send."""
        self._waiting = waiting

    def end_waiting(self, waiting: Waiting) -> None:
        """Let something wait no more."""
        if self._waiting is waiting:  # Not that of a connection attached meanwhile.
            self._waiting = None

    async def send_new(self, connection: object, response: PartedResponse, cursor: int) -> int | None:
        """Send the messages after a number over an attached connection; return the number of the last one sent, when
        there is nothing more, or None at the end, see `pump`."""
        while self._attached is connection:
            self._is_notified = False
            cursor = await self._send_from(connection, response, cursor)
            if self._attached is not connection:
                return None
            if not self._resumable and cursor == self.last:
                self._store.drop(self.id)  # The client cannot resume the stream.
            if self.finished or self._closed_connection:
                break
            await response.flush()
            if not self._is_notified:
                return cursor
        if self._closed_connection and not self.finished and self._attached is connection:
            response.add(b"retry: %d\n\n" % self._retry)
            self._closed_connection = False
        self.release(connection)
        return None

    async def _begin(self, connection: object) -> None:
        """Do what has to be done before the client gets an id to resume with."""

    def event_id(self, number: int) -> str:
        """Return the id of an event, which a client sends as `Last-Event-ID`."""
        return f"{self.id}-{number}"

    async def _send_from(self, connection: object, response: PartedResponse, cursor: int) -> int:
        """Send the messages after a number while the connection is attached; return the number of the last one sent."""
        while self._attached is connection and (messages := self._store.after(self.id, cursor)):
            cursor = await self._send_messages(connection, response, cursor, messages, self.finished)
        return cursor

    async def _send_messages(
        self, connection: object, response: PartedResponse, cursor: int, messages: Sequence[NumberedMessage], ends: bool
    ) -> int:
        """Send messages together, unless they are large. If the stream ends with them, the last ones go out with it."""
        added, size, last = cursor, 0, messages[-1][0]
        for number, message in messages:
            if number > added + 1:
                _log.warning("%d messages of a resumed stream are not stored any more", number - added - 1)
            response.add(encode(message, id=self.event_id(number) if self._resumable else ""))
            added, size = number, size + len(message)
            if response.is_large or (number == last and not ends):
                await response.flush()
                if self._attached is not connection:
                    return cursor
            elif number < last:
                continue
            cursor = self._delivered = number
            self._delivered_size = self.size if number == self.last else self._delivered_size + size
            size = 0
            self._make_room()
        return cursor

    def _make_room(self) -> None:
        if self._room is not None and not self._is_full():
            self._room.set()
            self._room = None

    def _notify(self) -> None:
        self._is_notified = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(True)


# Send an SSE stream as an ASGI response.


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
    on_end: Callable[[object], None] | None = None,
) -> bool:
    """Send a stream over one HTTP connection until the stream ends or the client disconnects.

    With `holds`, this may return True when there is nothing to send, and the stream goes on.

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
        on_end: Called when a stream that goes on has ended. Default None: nothing is.
    """
    response = PartedResponse(send, (*_STREAM, *more) if more else _STREAM)
    release = stream.release
    until = None if max_seconds is None else asyncio.get_running_loop().time() + max_seconds
    hold = partial(_hold, stream, disconnect, response, keep_alive, until, on_end) if holds else None
    stream.attach(disconnect)
    disconnect.add_done_callback(release)
    try:
        if first:
            response.add(first)
        if not await stream.pump(disconnect, response, keep_alive, after, priming_event, hold):
            return True
        await response.end()
    except OSError as error:
        _log.debug("a client disconnected from its stream: %s", error)
    finally:
        disconnect.remove_done_callback(release)  # Called here, which saves an iteration of the event loop.
        release(disconnect)
        disconnect.cancel()
    return False


def _hold(
    stream: SSEStream,
    connection: object,
    response: PartedResponse,
    keep_alive: KeepAliveTimer,
    until: float | None,
    on_end: Callable[[object], None] | None,
    cursor: int,
) -> bool:
    """Let a stream go on without a task, from a number on; return False if the server cannot do that."""
    held = HeldStream(stream, keep_alive, cursor) if until is None else LimitedStream(stream, keep_alive, cursor, until)
    held.on_end = on_end
    if (rest := response.hold(held)) is None:
        return False
    stream.exchange(connection, held)
    held.wait(rest)
    return True


class HeldStream:
    """A stream that is sent over an open connection, without a task while there is nothing to send: very many wait."""

    __slots__ = ("on_end", "_stream", "_keep_alive", "_cursor", "_response")

    def __init__(self, stream: SSEStream, keep_alive: KeepAliveTimer, cursor: int) -> None:
        """Go on with a stream after the message of this number."""
        self._stream = stream
        self._keep_alive = keep_alive
        self._cursor = cursor
        self.on_end: Callable[[object], None] | None = None
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
        if self.on_end is not None:
            self.on_end(self)


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
