"""The HTTP sessions of one endpoint, by `Mcp-Session-Id`; a session ends on DELETE or after an idle timeout."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import ClassVar, Final, Protocol

from ...aio.tasks import SharedLifespan, TaskStarter, task_starter
from ...http.asgi import Receive, RefusedRequestError, Scope, Send
from ...http.clients import ClientKey, client_key
from ...http.headers import Headers, HTTPError
from ...protocol.connection import Connection
from ...protocol.jsonrpc import INTERNAL_ERROR, Message
from ...protocol.lifecycle import Phase
from ...session.interfaces import Candidate, Dispatcher, RequestAuth, Service
from ...session.serving import handler_of, session_class
from ...session.session import Session
from .events import EventStore, InMemoryEventStore
from .limits import HTTPLimits
from .streams import RETRY, KeepAliveTimer, SSEStream

_log: Final = logging.getLogger(__name__)

_MAX_STREAMS: Final = 64  # Streams of one session above which finished ones are dropped.
_MAX_STANDALONE_STREAMS: Final = 16  # Streams of GET requests of one session at the same time.
_MAX_BYTES: Final = 16 * 1024 * 1024  # Bytes of the finished streams of one session.
_size_of: Final = attrgetter("size")
# Sets the state of a new session to that which other workers have; False if no server here serves its version.
Restore = Callable[[Dispatcher, Connection], bool]
_TOO_MANY: Final = HTTPError(503, "there are too many sessions", INTERNAL_ERROR, retry_after=2, limit="max_sessions")
Body = Callable[[], Awaitable[bytes | HTTPError]]


class HTTPSession:
    """An HTTP session and its streams. It is the transport of its `Session`: messages that belong to no POST are sent
    on one of the standalone streams, which the client opens by GET."""

    __slots__ = (
        "id",
        "owner",
        "session",
        "last_used",
        "dispatcher",
        "client",
        "is_half_open",
        "_events",
        "_retry",
        "_standalone_streams",
        "_streams",
    )

    close_reason = "the session was ended"
    is_shared: ClassVar[bool] = False  # True if other workers may serve its next request.

    def __init__(
        self, owner: object, events: EventStore, retry: int = RETRY, client: ClientKey = ("address", None)
    ) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = owner
        self.client = client
        self.is_half_open = True  # Until the first request after `initialize`.
        self.session: Session | None = None
        self.dispatcher: Dispatcher | None = None  # What handles its messages, and is detached at the end.
        self.last_used = float("-inf")
        self._events = events
        self._retry = retry
        self._standalone_streams: tuple[SSEStream, ...] = ()  # In the order of their last connection.
        self._streams: dict[str, SSEStream] | None = None

    @property
    def is_initialized(self) -> bool:
        """True if the client and the server have agreed on a version."""
        return self.session is not None and self.session.connection.phase is not Phase.NEW

    async def save(self) -> None:
        """Let other workers know its state, if it has changed. Raises StoreUnavailableError."""

    async def end(self) -> None:
        """End the session with its requests and streams."""
        if self.dispatcher is not None:
            self.dispatcher.detach()
        if self.session is not None:
            await self.session.stop()
        if self.dispatcher is not None:
            self.dispatcher.background_tasks.note_end()
        await self.close()

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

    def open_response_stream(self, message: Message | list[Message]) -> SSEStream:
        """Return a new stream for the answers to a posted message."""
        return self.open_stream()

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


class SessionFactory:
    """Connects HTTP sessions with the newest server of an endpoint."""

    def __init__(self, service: Service, lifespan: SharedLifespan) -> None:
        self._service = service
        self._lifespan = lifespan
        self._starter: TaskStarter | None = None
        self._template: Connection | None = None

    async def connect(self, http_session: HTTPSession, auth: RequestAuth, restore: Restore | None = None) -> bool:
        """Give a session its dispatcher, in a state that `restore` sets; return False if it cannot.

        Without `restore` the session begins with `initialize`.
        """
        dispatcher = self._service.dispatcher(await self._lifespan.state())
        if self._template is None:
            self._template = self._service.connection()
            self._starter = task_starter(asyncio.get_running_loop())
        connection = self._template.copy_for_new_connection()
        if restore is not None and not restore(dispatcher, connection):
            return False
        dispatcher.identify(http_session.id)
        opening = dispatcher.initialize if restore is None else None
        make = session_class(dispatcher)
        session = make(connection, http_session, handler_of(dispatcher), opening, self._starter, auth)
        http_session.session = session
        http_session.dispatcher = dispatcher
        dispatcher.attach(session)
        return True

    async def close(self) -> None:
        """End what runs the handlers of the sessions."""
        if self._starter is not None:
            await self._starter.close()


class SessionDirectory(Protocol):
    """Where the sessions of an endpoint are: in this process, or also in a store that several workers share.

    Each method raises StoreUnavailableError if it needs a store that cannot be reached.
    """

    @property
    def count(self) -> int:
        """The number of sessions in the memory of this process."""
        ...

    async def create(self, auth: RequestAuth, address: str | None) -> HTTPSession:
        """Return a new session of a user, or of an address without one. Raises RefusedRequestError if there are too
        many."""
        ...

    async def begin(self, session: HTTPSession) -> None:
        """Let a new session, whose `initialize` has succeeded, be found."""

    def current(self, id: str, owner: object) -> HTTPSession | None:
        """Return the session of an owner if nothing has to be read to know its state."""
        ...

    async def find(self, id: str, auth: RequestAuth, address: str | None = None) -> HTTPSession | None:
        """Return the session of an owner in its present state; None if there is none."""
        ...

    async def forward(self, session: HTTPSession, message: Message | list[Message]) -> Message | list[Message] | None:
        """Send what belongs to another worker to it; return the rest, None if there is none."""
        ...

    async def stream(self, session: HTTPSession, name: str | None) -> SSEStream | None:
        """Return the stream of this name, or without one the stream for a new GET; None if there is none any more."""
        ...

    async def claim(self, session: HTTPSession, stream: SSEStream, position: tuple[str, int] | None) -> int | None:
        """Let the connection that is attached next have a stream; return the number of the message to send after, None
        for the last one that was sent."""
        ...

    async def end(self, session: HTTPSession) -> None:
        """End a session with its requests and streams."""

    def hand_over(self) -> None:
        """Close the streams that other workers can go on with."""

    async def close(self) -> None:
        """End what this process has."""


class LocalSessions:
    """The sessions of the only worker of an endpoint: at most `max_sessions`, each of which ends `idle` seconds after
    its last use, or `handshake` seconds after it was opened if the client sends nothing more."""

    def __init__(
        self,
        factory: SessionFactory,
        events: EventStore,
        max_sessions: int,
        idle: float,
        retry: int = RETRY,
        handshake: float = math.inf,
    ) -> None:
        self._factory = factory
        self._events = events
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

    @property
    def count(self) -> int:
        """The number of sessions."""
        return len(self._open)

    async def create(self, auth: RequestAuth, address: str | None) -> HTTPSession:
        """Return a new session; see `SessionDirectory`."""
        session = self.open(auth.owner, address)
        if session is None:
            raise RefusedRequestError(_TOO_MANY)
        try:
            await self._factory.connect(session, auth)
        except BaseException:
            self._forget(session)
            raise
        return session

    async def begin(self, session: HTTPSession) -> None:
        """Do nothing: it is found already."""

    def open(self, owner: object, address: str | None = None) -> HTTPSession | None:
        """Return a new session, not connected yet, or None if there are `max_sessions` already.

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
        session = HTTPSession(owner, self._events, self._retry, client)
        self._open[session.id] = self._half_open[session.id] = session
        self._counts[client] = self._counts.get(client, 0) + 1
        self._touch(session)
        if self._handshake_timer is None and self._handshake < math.inf:
            self._handshake_timer = self._loop.call_later(self._handshake, self._end_half_open)
        return session

    def current(self, id: str, owner: object) -> HTTPSession | None:
        """Return the session of this id if it belongs to this owner, else None."""
        session = self._open.get(id)
        if session is None or session.owner != owner:
            return None
        if session.is_half_open:
            session.is_half_open = False
            del self._half_open[id]
        self._touch(session)
        return session

    async def find(self, id: str, auth: RequestAuth, address: str | None = None) -> HTTPSession | None:
        """Return the session of this id if it belongs to this owner, else None."""
        return self.current(id, auth.owner)

    async def forward(self, session: HTTPSession, message: Message | list[Message]) -> Message | list[Message] | None:
        """Return the message: there are no other workers."""
        return message

    async def stream(self, session: HTTPSession, name: str | None) -> SSEStream | None:
        """Return the stream of this name, or without one the stream for a new GET; None if there is none any more."""
        return session.listen() if name is None else session.resume(name)

    async def claim(self, session: HTTPSession, stream: SSEStream, position: tuple[str, int] | None) -> int | None:
        """Return the number of the message to send after."""
        return None if position is None else position[1]

    async def end(self, session: HTTPSession) -> None:
        """End a session with its requests and streams."""
        self._forget(session)
        await session.end()

    def hand_over(self) -> None:
        """Do nothing: the sessions of this process end with it."""

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


# What an HTTP endpoint needs to be one of several that share their sessions.


class LegacyEndpoint(Protocol):
    """The seam of HTTP+SSE of 2024: all its connections to one application."""

    def serves(self, path: str) -> bool:
        """Return True if this is the path of one of the two endpoints."""
        ...

    async def serve(
        self, scope: Scope, headers: Headers, auth: RequestAuth, body: Body, receive: Receive, send: Send
    ) -> None:
        """Serve a request to one of the two endpoints; `body` reads its body."""

    async def close(self) -> None:
        """End all connections."""


class EndpointSharing(Protocol):
    """The part of an endpoint that is about other workers."""

    is_open: bool

    def bind(self, lifespan: SharedLifespan) -> None:
        """Use the lifespan of the server, before the endpoint starts."""

    def sessions(self, factory: SessionFactory, limits: HTTPLimits) -> SessionDirectory:
        """Return where the sessions of all workers are."""
        ...

    def legacy_sse(
        self, servers: Sequence[Candidate[Service]], max_connections: int, keep_alive: KeepAliveTimer
    ) -> LegacyEndpoint:
        """Return the handler of HTTP+SSE."""
        ...

    async def start(self) -> None:
        """Connect to the other workers, when the process starts."""

    async def open(self) -> None:
        """Connect to the other workers, if that is still to be done. Raises StoreUnavailableError."""

    async def is_ready(self) -> bool:
        """Return True if requests can be served."""
        ...

    async def close(self) -> None:
        """Store what is still to be stored, and leave the other workers."""
