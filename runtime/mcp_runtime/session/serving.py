"""Serve one connection over a transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from pydantic_core import from_json

from ..protocol.connection import Connection, Event, MessageRejected, Redirected, RequestReceived
from ..protocol.framing import OversizedMessage
from ..protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorMessage,
    Id,
    MalformedMessage,
    Message,
    NotificationMessage,
    RequestMessage,
    ResultMessage,
    error,
)
from ..protocol.models import is_object
from ..protocol.revision import NAMED_VERSION, Handshake, Notification, Revision
from .interfaces import Candidate, Dispatcher, Reply, RequestAuth, Service, Transport
from .session import Session

# Choose the service that a connection is for, by the protocol version that its first message names.

T = TypeVar("T")


class LazyCandidate(Generic[T]):
    """A candidate that is made when it is first needed."""

    def __init__(self, revision_id: str, stateful: bool, make: Callable[[], T]) -> None:
        self.revision_id = revision_id
        self.stateful = stateful
        self._make = make
        self._endpoint: T | None = None

    def get(self) -> T:
        """Return the candidate, the same one at each call."""
        if self._endpoint is None:
            self._endpoint = self._make()
        return self._endpoint


def ready_candidate(revision: Revision, item: T) -> LazyCandidate[T]:
    """Return the candidate of an existing endpoint or service."""
    return LazyCandidate(revision.id, isinstance(revision.lifecycle, Handshake), lambda: item)


def newest(candidates: Sequence[Candidate[T]]) -> Candidate[T]:
    """Return the candidate of the newest protocol version, a stateless one if there is any."""
    stateless = [candidate for candidate in candidates if not candidate.stateful]
    return (stateless or candidates)[-1]


def version_of(params: object) -> str | None:
    """Return the protocol version that the params of a message name: each of a stateless lifecycle does."""
    meta = params.get("_meta") if is_object(params) else None
    version = meta.get(NAMED_VERSION) if is_object(meta) else None
    return version if version is None or isinstance(version, str) else ""


def initialize_methods(candidates: Sequence[Candidate[Service]]) -> frozenset[str]:
    """Return the methods of the requests that open a session."""
    lifecycles = [candidate.get().revision.lifecycle for candidate in candidates[::-1] if candidate.stateful][:1]
    return frozenset(item.initialize_request.method for item in lifecycles if isinstance(item, Handshake))


def select_service(candidates: Sequence[Candidate[Service]], first: bytes) -> Service | None:
    """Return the service of the protocol version that the first message of a connection names, or the newest one of
    its lifecycle.

    Returns None if the message does not open a connection.
    """
    stateful = [candidate for candidate in candidates if candidate.stateful]
    stateless = [candidate for candidate in candidates if not candidate.stateful]
    try:
        message = from_json(first) if not isinstance(first, OversizedMessage) else None
    except ValueError:
        message = None
    params = message.get("params") if is_object(message) else None
    version = version_of(params)
    if stateless and (not stateful or version is not None):
        # The newest one refuses a version that is not served: its error lists those that are.
        return next((item for item in stateless if item.revision_id == version), stateless[-1]).get()
    requested = params.get("protocolVersion") if is_object(params) else None
    service = next((candidate for candidate in stateful if candidate.revision_id == requested), stateful[-1]).get()
    if not stateless:
        return service
    lifecycle = service.revision.lifecycle
    is_initialize = (
        isinstance(lifecycle, Handshake)
        and is_object(message)
        and message.get("method") == lifecycle.initialize_request.method
    )
    return service if is_initialize else None


def reject_message(candidates: Sequence[Candidate[Service]], transport: Transport, data: bytes) -> None:
    """Respond to a message that does not open a connection as a server before `initialize` does."""
    service = next(candidate for candidate in reversed(candidates) if candidate.stateful).get()
    connection = service.connection()
    event = connection.oversized(data) if isinstance(data, OversizedMessage) else connection.receive(data)
    if isinstance(event, RequestReceived):  # A ping: nothing else is served before the handshake.
        transport.send(connection.send_result(event, event.row.result()))
    elif isinstance(event, MessageRejected) and event.reply is not None:
        transport.send(event.reply)


# The protocol versions of one connection: each message is served in the version that it names.
#
# One session reads the transport: that of the version which the first message names. A message of another version goes
# to a session of its own over the same transport, which is made when it is first needed and ends with the connection.

_log: Final = logging.getLogger(__name__)

# Makes the session and the dispatcher of a service, whose lifespan has yielded a value.
MakeSession = Callable[[Service, Any], tuple[Session, Dispatcher]]
_Key = str | None  # The id of a stateless version; None for the session with a handshake.


class ServedVersions:
    """The sessions of one connection besides the one that reads the transport."""

    def __init__(
        self, candidates: Sequence[Candidate[Service]], service: Service, state: Any, make_session: MakeSession
    ) -> None:
        """Begin with one version.

        Args:
            candidates: The services of all versions that may be served.
            service: The service of the version that the first message names.
            state: What the lifespan of that service has yielded.
            make_session: Makes the session of another service.
        """
        self._candidates = candidates
        self._first = service
        self._state = state
        self._make_session = make_session
        self._own: _Key = None if isinstance(service.revision.lifecycle, Handshake) else service.revision.id
        self._others: dict[_Key, _OtherVersion] = {}

    def attach(self, session: Session) -> None:
        """Let messages of other versions that this session reads be served in those."""
        self._session = session
        session.connection.elsewhere = self._redirect
        session.connection.own_version = self._own

    async def end(self) -> None:
        """End the sessions, as the first one has ended."""
        for other in self._others.values():
            await other.end()

    # ---- which version a message names -------------------------------------------------------------------------------

    @cached_property
    def _stateless(self) -> Mapping[str, Candidate[Service]]:
        return {candidate.revision_id: candidate for candidate in self._candidates if not candidate.stateful}

    @cached_property
    def _initialize_methods(self) -> frozenset[str]:
        return initialize_methods(self._candidates)

    def _redirect(self, message: Message | list[Message]) -> Event | None:
        """Return the event of a message that is not for the first session; None if it is."""
        if isinstance(message, RequestMessage):
            meta = message.params.get("_meta") if message.params else None
            if not self._others and (meta is None if self._own is None else is_named(meta, self._own)):
                return None  # Nearly every request of nearly every connection.
            key = self._key_of_request(message)
            if self._others and self._is_in_use(message.id, key):
                text = f"id {message.id!r} is in use by another request"
                return Redirected(lambda reply: reply(error(message.id, INVALID_REQUEST, text), INVALID_REQUEST))
        elif isinstance(message, list) or not (self._others or isinstance(message, NotificationMessage)):
            return None
        elif isinstance(message, NotificationMessage):
            key = self._key_of_notification(message)
        else:
            key = self._key_of_response(message)
        return None if key == self._own else Redirected(partial(self._pass, key, message))

    def _key_of_request(self, message: RequestMessage) -> _Key:
        version = version_of(message.params)
        if version == self._own and version is not None:
            return version
        if version is not None:
            return version if version in self._stateless else self._unknown_version
        if self._own is None or None in self._others:
            return None
        return None if message.method in self._initialize_methods else self._own

    @property
    def _unknown_version(self) -> _Key:
        """The version that refuses one that is not served: the error lists those that are."""
        return self._own or newest(self._candidates).revision_id

    def _key_of_notification(self, message: NotificationMessage) -> _Key:
        """Return the version that a notification names, or else that of the request that it is about, or else one that
        has it."""
        version = version_of(message.params)
        if version in self._stateless:
            return version
        cancelled = self._session.connection.revision.lifecycle.cancelled.method
        id = message.params.get("requestId") if message.method == cancelled and message.params else None
        if id is not None:
            running = (key for key, other in self._others.items() if other.has(id))
            return next(running, self._own)
        if message.method in self._session.connection.receivable:
            return self._own
        return next((key for key, other in self._others.items() if other.receives(message.method)), self._own)

    def _key_of_response(self, message: ResultMessage | ErrorMessage | MalformedMessage) -> _Key:
        """Return the version with requests to the client: only a session with a handshake has them."""
        is_response = not isinstance(message, MalformedMessage) or message.is_response is not False
        return None if is_response and None in self._others else self._own

    def _is_in_use(self, id: Id, key: _Key) -> bool:
        """Return True if a request of another version than this one has the id."""
        sessions = {self._own: self._session, **{other: item.session for other, item in self._others.items()}}
        return any(at != key and session is not None and is_in_flight(session, id) for at, session in sessions.items())

    # ---- the other sessions ------------------------------------------------------------------------------------------

    def _pass(self, key: _Key, message: Message, reply: Reply) -> bool:
        other = self._others.get(key)
        if other is None:
            service = self._service(key)
            self._session.connection.own_version = self  # Nothing equals it: ids may be those of other versions.
            other = self._others[key] = _OtherVersion(service, partial(self._make_session, service))
            if service.origin is self._first.origin:
                other.begin(self._state)
            else:
                other.begin_with_lifespan()
        return other.receive(message, reply)

    def _service(self, key: _Key) -> Service:
        if key is not None:
            return self._stateless[key].get()
        return newest([candidate for candidate in self._candidates if candidate.stateful]).get()


class _OtherVersion:
    """A session that does not read the transport itself. Messages wait until the lifespan of its server has begun."""

    def __init__(self, service: Service, make: Callable[[Any], tuple[Session, Dispatcher]]) -> None:
        self._service = service
        self._make = make
        self.session: Session | None = None
        self._dispatcher: Dispatcher | None = None
        self._waiting: list[tuple[Message, Reply]] = []
        self._ended = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def begin(self, state: Any) -> None:
        """Begin; a server whose lifespan runs already is served at once."""
        session, dispatcher = self._make(state)
        self.session = session
        self._dispatcher = dispatcher
        self.session.begin()
        waiting = self._waiting
        self._waiting = []
        for message, reply in waiting:
            self.receive(message, reply)

    def begin_with_lifespan(self) -> None:
        """Begin as soon as the server's lifespan has."""
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        try:
            async with self._service.lifespan() as state:
                self.begin(state)
                await self._ended.wait()
                await self._finish()
        except Exception:
            _log.exception("the lifespan of the server of %s has failed", self._service.revision.id)
            waiting = self._waiting
            self._waiting = []
            for message, reply in waiting:
                if isinstance(message, RequestMessage):
                    reply(error(message.id, INTERNAL_ERROR, "internal error"), INTERNAL_ERROR)

    def receive(self, message: Message, reply: Reply) -> bool:
        """Handle a message. Return True if `reply` was called or will be."""
        session = self.session
        if session is None:
            self._waiting.append((message, reply))
            return isinstance(message, RequestMessage)
        return session.handle_event(session.connection.receive_message(message), reply, session)

    def has(self, id: Any) -> bool:
        """Return True if a request with this id is being handled."""
        return self.session is not None and is_in_flight(self.session, id)

    def receives(self, method: str) -> bool:
        """Return True if the version has this notification."""
        return self.session is not None and isinstance(self.session.connection.receivable.get(method), Notification)

    async def end(self) -> None:
        """End the session, and then the lifespan."""
        self._ended.set()
        if self._serving is not None:
            if self.session is None:
                self._serving.cancel()
            await asyncio.wait([self._serving])
        else:
            await self._finish()

    async def _finish(self) -> None:
        if self.session is not None and self._dispatcher is not None:
            await self.session.end()
            self._dispatcher.detach()
            await self._dispatcher.background_tasks.end()


def is_named(meta: object, version: str) -> bool:
    """Return True if the metadata of a request names this version."""
    return is_object(meta) and meta.get(NAMED_VERSION) == version


def is_in_flight(session: Session, id: Any) -> bool:
    """Return True if the session handles a request with this id."""
    connection: Connection = session.connection
    return isinstance(id, (str, int)) and bool(connection.in_flight) and id in (connection.in_flight or {})


# Returns True if a request, the name of whose handler and params it gets, runs code of users in a worker thread only.
RunsInThread = Callable[[str, Any], bool]


@runtime_checkable
class WatchingTransport(Protocol):
    """A transport that watches the calls of its session, and may answer some itself."""

    def watch(self, session: Session, service: Service) -> None: ...


async def serve(
    candidates: Sequence[Candidate[Service]],
    transport: Transport,
    auth: RequestAuth | None = None,
    scope: Mapping[str, Any] | None = None,
) -> None:
    """Serve one connection with the candidate of the version that the client names; then close the transport.

    Args:
        candidates: The services of all protocol versions that the client may negotiate.
        transport: The open transport of the connection.
        auth: The authentication of the connection; None without one.
        scope: The ASGI scope of the HTTP request that opened the connection; None over stdio and in memory.
    """
    try:
        while (first := await transport.receive()) is not None:
            service = select_service(candidates, first)
            if service is not None:
                await _serve_session(candidates, service, transport, auth, scope, first)
                return
            reject_message(candidates, transport, first)
            await transport.drain()
    finally:
        await transport.close()


def session_class(dispatcher: Dispatcher) -> type[Session]:
    """Return the class of the sessions of a dispatcher: its own `session_class`, or `Session`."""
    return getattr(dispatcher, "session_class", Session)


def handler_of(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Return what handles the messages of a session: the dispatcher itself if it can be called, which saves the memory
    of a bound method for each session."""
    return dispatcher if callable(dispatcher) else dispatcher.handle


async def _serve_session(
    candidates: Sequence[Candidate[Service]],
    service: Service,
    transport: Transport,
    auth: RequestAuth | None,
    scope: Mapping[str, Any] | None,
    first: bytes,
) -> None:
    def make_session(service: Service, state: Any) -> tuple[Session, Dispatcher]:
        dispatcher = service.dispatcher(state)
        connection = service.connection()
        dispatcher.stamp_server_info(connection)
        make = session_class(dispatcher)
        session = make(connection, transport, dispatcher.handle, dispatcher.initialize, auth=auth, scope=scope)
        dispatcher.attach(session)
        return session, dispatcher

    async with service.lifespan() as state:
        session, dispatcher = make_session(service, state)
        versions = ServedVersions(candidates, service, state, make_session)
        if len(candidates) > 1 and any(not candidate.stateful for candidate in candidates):
            versions.attach(session)
        if isinstance(transport, WatchingTransport):
            transport.watch(session, service)
        session.closed.add_done_callback(lambda _: dispatcher.detach())
        try:
            await session.run(first)
        finally:
            dispatcher.detach()
            await versions.end()
            await dispatcher.background_tasks.end()
