"""The HTTP sessions of one endpoint, by `Mcp-Session-Id`; a session ends on DELETE or after an idle timeout."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ...session.session import Session
from .event_store import EventStore
from .streams import RETRY, SSEStream

_log: Final = logging.getLogger(__name__)

_MAX_STREAMS: Final = 64  # Streams of one session above which finished ones are dropped.
_MAX_STANDALONE_STREAMS: Final = 16  # Streams of GET requests of one session at the same time.
_MAX_BYTES: Final = 16 * 1024 * 1024  # Bytes of the finished streams of one session.


class HTTPSession:
    """An HTTP session and its streams. It is the transport of its `Session`: messages that belong to no POST are sent
    on one of the standalone streams, which the client opens by GET."""

    __slots__ = (
        "id",
        "owner",
        "session",
        "last_used",
        "close_reason",
        "on_end",
        "_events",
        "_retry",
        "_standalone_streams",
        "_streams",
    )

    def __init__(self, owner: object, events: EventStore, retry: int = RETRY) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = owner
        self.session: Session | None = None
        self.on_end: Callable[[], None] | None = None
        self.last_used = float("-inf")
        self.close_reason = "the session was ended"
        self._events, self._retry = events, retry
        self._standalone_streams: list[SSEStream] = []  # In the order of their last connection.
        self._streams: dict[str, SSEStream] | None = None

    @property
    def standalone_stream(self) -> SSEStream:
        """The SSE stream for messages that belong to no POST: the last one with a connection, if there is one."""
        streams = self._standalone_streams
        if not streams:
            streams.append(self.open_stream())
        return next((stream for stream in reversed(streams) if stream.is_attached), streams[-1])

    def listen(self) -> SSEStream:
        """Return the standalone stream for a new GET: one without a connection, or else a new one.

        Messages may wait on a stream without a connection. With too many streams, the GET replaces the connection of
        the one that was connected first.
        """
        streams = self._standalone_streams
        waiting = [stream for stream in streams if not stream.is_attached]
        waiting.sort(key=lambda stream: not stream.has_undelivered)
        if waiting:
            streams.remove(waiting[0])
            streams.append(waiting[0])
        else:
            streams.append(streams.pop(0) if len(streams) >= _MAX_STANDALONE_STREAMS else self.open_stream())
        return streams[-1]

    def resume(self, id: str) -> SSEStream | None:
        """Return the stream of this id, or None; messages go to a standalone stream that is resumed."""
        stream = None if self._streams is None else self._streams.get(id)
        if stream is not None and stream in self._standalone_streams:
            self._standalone_streams.remove(stream)
            self._standalone_streams.append(stream)
        return stream

    @property
    def is_busy(self) -> bool:
        """True if a stream has a connection, so that the session is not idle."""
        return any(stream.is_attached for stream in (self._streams or {}).values())

    def open_stream(self) -> SSEStream:
        """Return a new stream; drop the oldest finished streams without a connection if they exceed the limits."""
        if self._streams is None:
            self._streams = {}
        stream = SSEStream(self._events, retry=self._retry)
        self._streams[stream.id] = stream
        finished = [item for item in self._streams.values() if item.finished and not item.is_attached]
        size = sum([item.size for item in finished])
        for item in finished:
            if size <= _MAX_BYTES and len(self._streams) <= _MAX_STREAMS:
                break
            size -= item.size
            del self._streams[item.id]
            item.drop()
        return stream

    # ---- as a transport ----------------------------------------------------------------------------------------------

    def send(self, message: bytes, more: bool = False) -> None:
        """Put a message on the standalone stream."""
        self.standalone_stream.put(message)

    async def drain(self) -> None:
        """Wait until few messages of the standalone stream are unsent."""
        if self._standalone_streams:
            await self.standalone_stream.drain()

    async def receive(self) -> bytes | None:
        """Return None: posted messages are passed to `Session.handle_event`."""
        return None

    async def close(self) -> None:
        """Drop all streams."""
        for stream in (self._streams or {}).values():
            stream.drop()
        self._streams = None
        self._standalone_streams = []


class SessionStore:
    """All sessions of an endpoint: at most `max_sessions`, each of which ends `idle` seconds after its last use."""

    def __init__(self, events: EventStore, max_sessions: int, idle: float, retry: int = RETRY) -> None:
        self.events = events
        self._retry = retry
        self._max_sessions = max_sessions
        self._idle = idle
        self._precision = idle / 1000  # Seconds: a use this soon after the last one is not recorded, to save time.
        self._open: OrderedDict[str, HTTPSession] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, owner: object) -> HTTPSession | None:
        """Return a new session, or None if there are `max_sessions` already."""
        if len(self._open) >= self._max_sessions:
            return None
        self._loop = asyncio.get_running_loop()
        session = HTTPSession(owner, self.events, self._retry)
        self._open[session.id] = session
        self._touch(session)
        return session

    def find(self, id: str, owner: object) -> HTTPSession | None:
        """Return the session of this id if it belongs to this owner, else None."""
        session = self._open.get(id)
        if session is None or session.owner != owner:
            return None
        self._touch(session)
        return session

    async def end(self, session: HTTPSession) -> None:
        """End a session with its requests and streams."""
        self._open.pop(session.id, None)
        if session.on_end is not None:
            session.on_end()
        if session.session is not None:
            await session.session.stop()
        await session.close()

    async def close(self) -> None:
        """End all sessions."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.gather(*(self.end(session) for session in list(self._open.values())), *self._ending)

    def _touch(self, session: HTTPSession) -> None:
        now = self._loop.time()
        if now - session.last_used < self._precision:
            return
        session.last_used = now
        self._open.move_to_end(session.id)
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle, self._sweep)

    def _sweep(self) -> None:
        """End idle sessions. Sessions are in the order of their last use, so that only the first ones are looked at."""
        self._timer = None
        while self._open:
            oldest = next(iter(self._open.values()))
            remaining = oldest.last_used + self._idle - self._loop.time()
            if remaining > 0:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_later(remaining, self._sweep)
                return
            if oldest.is_busy:
                self._touch(oldest)
                continue
            _log.debug("a session was idle for %g seconds and has ended", self._idle)
            del self._open[oldest.id]
            task = self._loop.create_task(self.end(oldest))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
