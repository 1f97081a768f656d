"""The protocol versions of one connection: each message is served in the version that it names.

One session reads the transport: that of the version which the first message names. A message of another version goes
to a session of its own over the same transport, which is made when it is first needed and ends with the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

from mcp_runtime.protocol.connection import Connection, Event, Redirected
from mcp_runtime.protocol.jsonrpc import (
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
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import NAMED_VERSION, Handshake, Notification
from mcp_runtime.session.interfaces import Candidate, Dispatcher, Reply, Service
from mcp_runtime.session.serving import initialize_methods, newest, version_of
from mcp_runtime.session.session import Session

_log: Final = logging.getLogger("mcp_runtime.session.serving")

# Makes the session and the dispatcher of a service, whose lifespan has yielded a value.
MakeSession = Callable[[Service, Any], tuple[Session, Dispatcher]]
_Key = str | None  # The id of a stateless version; None for the session with a handshake.


class ServedVersions:
    """The sessions of one connection besides the one that reads the transport."""

    def __init__(
        self,
        candidates: Sequence[Candidate[Service]],
        service: Service,
        state: Any,
        make_session: MakeSession,
        session: Session,
    ) -> None:
        """Begin with one version.

        Args:
            candidates: The services of all versions that may be served.
            service: The service of the version that the first message names.
            state: What the lifespan of that service has yielded.
            make_session: Makes the session of another service.
            session: The session that reads the transport: its messages of other versions are served in those.
        """
        self._candidates = candidates
        self._first = service
        self._state = state
        self._make_session = make_session
        self._own: _Key = None if isinstance(service.revision.lifecycle, Handshake) else service.revision.id
        self._others: dict[_Key, _OtherVersion] = {}
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
