"""The HTTP sessions of one endpoint, by `Mcp-Session-Id`; a session ends on DELETE or after an idle timeout."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from ...http.client_keys import ClientKey, client_key
from ...session.session import Session
from .event_store import EventStore, InMemoryEventStore
from .streams import RETRY, SSEStream

_log: Final = logging.getLogger(__name__)

_MAX_STREAMS: Final = 64  # Streams of one session above which finished ones are dropped.
_MAX_STANDALONE_STREAMS: Final = 16  # Streams of GET requests of one session at the same time.
_MAX_BYTES: Final = 16 * 1024 * 1024  # Bytes of the finished streams of one session.
_size_of: Final = attrgetter("size")


class HTTPSession:
    """An HTTP session and its streams. It is the transport of its `Session`: messages that belong to no POST are sent
    on one of the standalone streams, which the client opens by GET."""

    __slots__ = (
        "id",
        "owner",
        "session",
        "last_used",
        "on_end",
        "client",
        "is_half_open",
        "_events",
        "_retry",
        "_standalone_streams",
        "_streams",
    )

    close_reason = "the session was ended"

    def __init__(
        self, owner: object, events: EventStore, retry: int = RETRY, client: ClientKey = ("address", None)
    ) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = owner
        self.client = client
        self.is_half_open = True  # Until the first request after `initialize`.
        self.session: Session | None = None
        self.on_end: Callable[[], None] | None = None
        self.last_used = float("-inf")
        self._events = events
        self._retry = retry
        self._standalone_streams: tuple[SSEStream, ...] = ()  # In the order of their last connection.
        self._streams: dict[str, SSEStream] | None = None

    @property
    def standalone_stream(self) -> SSEStream:
        """The SSE stream for messages that belong to no POST: the last one with a connection, if there is one."""
        streams = self._standalone_streams = self._standalone_streams or (self.open_stream(),)
        return next((stream for stream in reversed(streams) if stream.is_attached), streams[-1])

    def listen(self) -> SSEStream:
        """Return the standalone stream for a new GET: one without a connection, or else a new one.

        Messages may wait on a stream without a connection. With too many streams, the GET replaces the connection of
        the one that was connected first.
        """
        streams = self._standalone_streams
        waiting = [stream for stream in streams if not stream.is_attached]
        waiting.sort(key=lambda stream: not stream.has_undelivered)
        if not waiting:
            waiting = [streams[0] if len(streams) >= _MAX_STANDALONE_STREAMS else self.open_stream()]
        self._put_last(waiting[0])
        return waiting[0]

    def resume(self, id: str) -> SSEStream | None:
        """Return the stream of this id, or None; messages go to a standalone stream that is resumed."""
        stream = None if self._streams is None else self._streams.get(id)
        if stream is not None and stream in self._standalone_streams:
            self._put_last(stream)
        return stream

    def _put_last(self, stream: SSEStream) -> None:
        self._standalone_streams = (*(item for item in self._standalone_streams if item is not stream), stream)

    @property
    def is_busy(self) -> bool:
        """True if a stream has a connection, so that the session is not idle."""
        return any(stream.is_attached for stream in (self._streams or {}).values())

    def open_stream(self) -> SSEStream:
        """Return a new stream; drop the oldest finished streams without a connection if they exceed the limits."""
        if self._streams is None:
            self._streams = {}
        stream = self._new_stream()
        self._streams[stream.id] = stream
        size = sum(map(_size_of, self._streams.values()))
        if size > _MAX_BYTES:
            size = sum(item.size for item in self._streams.values() if item.finished and not item.is_attached)
        if size > _MAX_BYTES or len(self._streams) > _MAX_STREAMS:
            self._drop_streams(size)
        return stream

    def _drop_streams(self, size: int) -> None:
        """Drop the oldest finished streams; `size` is that of all finished ones, or more if few are stored."""
        assert self._streams is not None
        for item in [*self._streams.values()]:
            if size <= _MAX_BYTES and len(self._streams) <= _MAX_STREAMS:
                break
            if item.finished and not item.is_attached:
                size -= item.size
                del self._streams[item.id]
                item.drop()

    def _new_stream(self) -> SSEStream:
        stream = SSEStream(self._events, retry=self._retry)
        if isinstance(self._events, InMemoryEventStore):
            self._events.assign(stream.id, self.client)
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
        self._standalone_streams = ()


class SessionStore:
    """All sessions of an endpoint: at most `max_sessions`, each of which ends `idle` seconds after its last use, or
    `handshake` seconds after it was opened if the client sends nothing more."""

    def __init__(
        self, events: EventStore, max_sessions: int, idle: float, retry: int = RETRY, handshake: float = math.inf
    ) -> None:
        self.events = events
        self._retry = retry
        self._max_sessions = max_sessions
        self._idle = idle
        self._handshake = handshake
        self._precision = idle / 1000  # Seconds: a use this soon after the last one is not recorded, to save time.
        self._open: OrderedDict[str, HTTPSession] = OrderedDict()
        self._half_open: OrderedDict[str, HTTPSession] = OrderedDict()  # In the order in which they were opened.
        self._counts: dict[ClientKey, int] = {}  # The numbers of sessions of the clients.
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, owner: object, address: str | None = None) -> HTTPSession | None:
        """Return a new session, or None if there are `max_sessions` already.

        The session of a client that has sent nothing since `initialize` makes room, the oldest first; else the least
        recently used session of the client, a user or an address, that has the most sessions, if it has more.
        """
        self._loop = asyncio.get_running_loop()
        client = client_key(owner, address)
        if len(self._open) >= self._max_sessions:
            superfluous = self._superfluous(client)
            if superfluous is None:
                return None
            self._end_later(superfluous)
        session = HTTPSession(owner, self.events, self._retry, client)
        self._open[session.id] = self._half_open[session.id] = session
        self._counts[client] = self._counts.get(client, 0) + 1
        self._touch(session)
        if self._handshake_timer is None and self._handshake < math.inf:
            self._handshake_timer = self._loop.call_later(self._handshake, self._end_half_open)
        return session

    def find(self, id: str, owner: object) -> HTTPSession | None:
        """Return the session of this id if it belongs to this owner, else None."""
        session = self._open.get(id)
        if session is None or session.owner != owner:
            return None
        if session.is_half_open:
            session.is_half_open = False
            del self._half_open[id]
        self._touch(session)
        return session

    async def end(self, session: HTTPSession) -> None:
        """End a session with its requests and streams."""
        self._forget(session)
        if session.on_end is not None:
            session.on_end()
        if session.session is not None:
            await session.session.stop()
        await session.close()

    async def close(self) -> None:
        """End all sessions."""
        for timer in (self._timer, self._handshake_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._handshake_timer = None
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
            self._end_later(oldest)

    def _end_half_open(self) -> None:
        """End the sessions whose clients have sent nothing in time since `initialize`."""
        self._handshake_timer = None
        while self._half_open:
            oldest = next(iter(self._half_open.values()))
            remaining = oldest.last_used + self._handshake - self._loop.time()
            if remaining > 0:
                self._handshake_timer = self._loop.call_later(remaining, self._end_half_open)
                return
            self._end_later(oldest)

    def _superfluous(self, client: ClientKey) -> HTTPSession | None:
        """Return the session that makes room for one of this client; None if there is none."""
        if self._half_open:
            return next(iter(self._half_open.values()))
        key = max(self._counts, key=self._counts.__getitem__, default=client)
        if self._counts.get(key, 0) <= self._counts.get(client, 0) + 1:
            return None
        return next((item for item in self._open.values() if item.client == key and not item.is_busy), None)

    def _end_later(self, session: HTTPSession) -> None:
        self._forget(session)
        task = self._loop.create_task(self.end(session))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _forget(self, session: HTTPSession) -> None:
        self._half_open.pop(session.id, None)
        if self._open.pop(session.id, None) is None:
            return
        self._counts[session.client] -= 1
        if not self._counts[session.client]:
            del self._counts[session.client]
