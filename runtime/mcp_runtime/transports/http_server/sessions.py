"""Sessions of one endpoint: opened with an id nobody can guess, found by it, and ended when told, idle or too old."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ...session.session import Session
from .event_store import EventStore
from .streams import SSEStream

_log: Final = logging.getLogger(__name__)

_MAX_STREAMS: Final = 64  # Streams of one session, while some of them are finished and only kept to be resumed.
_MAX_BYTES: Final = 16 * 1024 * 1024  # Bytes of those that are finished.


class HTTPSession:
    """A session and its streams. For the session it is the transport: what belongs to no exchange goes on the
    standing stream, which a GET listens to."""

    __slots__ = (
        "id",
        "owner",
        "session",
        "last_used",
        "close_reason",
        "on_end",
        "_events",
        "_standalone_stream",
        "_streams",
    )

    def __init__(self, owner: object, events: EventStore) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = owner
        self.session: Session | None = None
        self.on_end: Callable[[], None] | None = None
        self.last_used = float("-inf")
        self.close_reason = "the session was ended"
        self._events = events
        self._standalone_stream: SSEStream | None = None
        self._streams: dict[str, SSEStream] | None = None

    @property
    def standalone_stream(self) -> SSEStream:
        """The stream for what belongs to no exchange."""
        if self._standalone_stream is None:
            self._standalone_stream = self.open_stream()
        return self._standalone_stream

    @property
    def is_busy(self) -> bool:
        """Whether a stream is open, so that the session is not idle however long nothing was said."""
        return any(stream.is_attached for stream in (self._streams or {}).values())

    def open_stream(self) -> SSEStream:
        """A new stream; finished ones that nobody came back for are forgotten, oldest first, if they are too many or
        too large."""
        if self._streams is None:
            self._streams = {}
        stream = SSEStream(self._events)
        self._streams[stream.id] = stream
        old = [each for each in self._streams.values() if each.finished and not each.is_attached]
        size = sum([each.size for each in old])
        for each in old:
            if size <= _MAX_BYTES and len(self._streams) <= _MAX_STREAMS:
                break
            size -= each.size
            del self._streams[each.id]
            each.drop()
        return stream

    def stream(self, id: str) -> SSEStream | None:
        """One of its streams."""
        return None if self._streams is None else self._streams.get(id)

    # ---- as a transport -----------------------------------------------------------------------------------------------

    def send(self, message: bytes, more: bool = False) -> None:
        self.standalone_stream.put(message)

    async def drain(self) -> None:
        if self._standalone_stream is not None:
            await self._standalone_stream.drain()

    async def receive(self) -> bytes | None:
        """Nothing is received here: what is posted is handed to the session by whoever serves HTTP."""
        return None

    async def close(self) -> None:
        for stream in (self._streams or {}).values():
            stream.drop()
        self._streams = self._standalone_stream = None


class SessionStore:
    """All sessions of an endpoint. At most `most` are open at once, and one ends `idle` seconds after its last use."""

    def __init__(self, events: EventStore, max_sessions: int, idle: float) -> None:
        self._events = events
        self._max_sessions = max_sessions
        self._idle = idle
        self._last_used = idle / 1000  # Seconds after a use in which another is not noted: it would be too much work.
        self._open: OrderedDict[str, HTTPSession] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, owner: object) -> HTTPSession | None:
        """A new session; None where there are too many."""
        if len(self._open) >= self._max_sessions:
            return None
        self._loop = asyncio.get_running_loop()
        opened = HTTPSession(owner, self._events)
        self._open[opened.id] = opened
        self._touch(opened)
        return opened

    def find(self, id: str, owner: object) -> HTTPSession | None:
        """The session of this id, if it is this owner's."""
        found = self._open.get(id)
        if found is None or found.owner != owner:
            return None
        self._touch(found)
        return found

    async def end(self, session: HTTPSession) -> None:
        """End a session: its requests end, and its streams."""
        self._open.pop(session.id, None)
        if session.on_end is not None:
            session.on_end()
        if session.session is not None:
            await session.session.stop()
        await session.close()

    async def close(self) -> None:
        """End them all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.gather(*(self.end(each) for each in list(self._open.values())), *self._ending)

    def _touch(self, session: HTTPSession) -> None:
        now = self._loop.time()
        if now - session.last_used < self._last_used:
            return
        session.last_used = now
        self._open.move_to_end(session.id)
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle, self._sweep)

    def _sweep(self) -> None:
        """End what is idle. The sessions stand in the order of their last use, so this costs what there is to do."""
        self._timer = None
        while self._open:
            eldest = next(iter(self._open.values()))
            left = eldest.last_used + self._idle - self._loop.time()
            if left > 0:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_later(left, self._sweep)
                return
            if eldest.is_busy:
                self._touch(eldest)
                continue
            _log.debug("a session was idle for %g seconds and has ended", self._idle)
            del self._open[eldest.id]
            task = self._loop.create_task(self.end(eldest))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
