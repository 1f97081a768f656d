"""The sessions of an endpoint at one worker: what is in the store, and what this worker needs to serve them."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcp_runtime.http.clients import ClientKey
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, Id, Message, RequestMessage
from mcp_runtime.protocol.lifecycle import Phase
from mcp_runtime.session.interfaces import Dispatcher
from mcp_runtime.session.session import Session
from mcp_runtime.stores import StoreUnavailableError
from mcp_runtime.transports.http_server.events import InMemoryEventStore
from mcp_runtime.transports.http_server.sessions import HTTPSession
from mcp_runtime.transports.http_server.streams import SSEStream

from .changes import EVERYTHING, Change
from .standalone import StandaloneStream, WrittenMessage
from .state import ServerSharing
from .streams import StoredStream, session_digest
from .worker import Worker

_NO_EVENTS: Final = InMemoryEventStore()
_REST: Final = 0.1  # The part of its time to live for which a session that was touched is not touched again.
_RECENT: Final = 256  # Entries of each cache of this module.
_UNKNOWN: Final = object()  # The owner of a session before a request has shown it.
# What `ServerSharing.mark` has returned for the state of a record. A dict, since several threads may have event loops.
_MARKS: Final[dict[bytes, object]] = {}
_LOST_REQUEST: Final = "the store of this server has lost the request before the client had read it"
_CHANGING: Final = ("level", "uris", "rules", "phase")


def owner_digest(owner: object) -> str:
    """Return what the record of a session has of its owner."""
    return _NOBODY if owner is None else _digest(repr(owner))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


_NOBODY: Final = _digest(repr(None))  # One object for very many sessions.


@lru_cache(_RECENT)
def _shared(record: bytes) -> bytes:
    """Return the same object for records that are equal: those of sessions with the same kind of client often are."""
    return record


@lru_cache(_RECENT)
def _name(session_id: str) -> str:
    """Return the name of the record of a session, which does not show the id."""
    return sha256(session_id.encode()).hexdigest()


def _remember(record: bytes, mark: object) -> None:
    if len(_MARKS) >= _RECENT:
        _MARKS.clear()
    _MARKS[record] = mark


class SessionReplica(HTTPSession):
    """A session as one worker has it. Its state is in the record of the store; other workers have replicas as well."""

    __slots__ = ("_owner_digest", "_touched", "record", "first_change", "_worker", "_ttl",
                 "_sharing", "_standalone", "_binding", "_resumed", "has_ended",
                 "handshake_ttl", "_saves")  # fmt: skip

    is_shared = True

    def __init__(
        self,
        id: str,
        owner: object,
        client: ClientKey,
        worker: Worker,
        *,
        sharing: ServerSharing,
        ttl: float,
        handshake_ttl: float,
        retry: int,
    ) -> None:
        """Create the replica of a session.

        Args:
            id: The id of the session.
            owner: The owner of the session.
            client: The user or address, for limits.
            worker: This worker.
            sharing: What the server shares.
            ttl: Seconds after its last use at which the session ends.
            handshake_ttl: The same before its first use.
            retry: Milliseconds after which clients reconnect.
        """
        super().__init__(owner, _NO_EVENTS, retry, client)
        self.id = id
        self._worker = worker
        self._sharing = sharing
        self._ttl = ttl
        self.handshake_ttl = handshake_ttl
        self._owner_digest = owner_digest(owner)
        self.owner = _UNKNOWN  # Until a request has shown the owner that the record has.
        self._touched = float("-inf")
        self.record: bytes | None = None
        self._saves = 0  # How often the record has been changed.
        self.first_change = 0  # The last change that its first worker had read when the session was opened.
        self._standalone: StandaloneStream | None = None  # Most sessions have no stream.
        self._binding = ""  # What the ids of the streams of responses end with.
        self._resumed: weakref.WeakValueDictionary[str, StoredStream] | None = None
        self.has_ended = False

    @property
    def connected(self) -> Session:
        """What handles the messages of the session."""
        assert self.session is not None, "a replica is connected before it is used"
        return self.session

    @property
    def handled_by(self) -> Dispatcher:
        """What has the state of the session."""
        assert self.dispatcher is not None, "a replica is connected before it is used"
        return self.dispatcher

    def fail_running(self, error: str) -> None:
        """Answer the requests whose handlers run with an error."""
        session = self.connected
        for running in [*session.running.values()]:
            running.reply(session.connection.send_error(running.request, INTERNAL_ERROR, error), 0)

    def _export(self) -> dict[str, Any]:
        return self._sharing.export(self.handled_by, self.connected.connection)

    def _update(self, state: Mapping[str, Any]) -> None:
        self._sharing.update(self.handled_by, self.connected.connection, state)

    # ---- the record --------------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The key of the record."""
        return self._worker.key("session", _name(self.id))

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that the record has."""
        if self.record is None:
            return {"owner": self._owner_digest, "change": self.first_change, "saves": 0}
        state: dict[str, Any] = from_json(self.record)
        return state

    def belongs_to(self, owner: object) -> bool:
        """Return True for the owner that the record has."""
        if self.owner is not _UNKNOWN and owner == self.owner:
            return True
        if owner_digest(owner) != self._owner_digest:
            return False
        self.owner = owner
        return True

    def is_current(self) -> bool:
        """Return True if the store is known to have the record that this worker has. It was used just now."""
        record, worker = self.record, self._worker
        if record is None or not self._is_touched(self.last_used):
            return False
        return worker.store.tracked(worker.key("session", _name(self.id))) == record

    async def read(self) -> bytes | None:
        """Return the record, which is stored for its time to live from now on, or for 0.9 of it; None if there is none.

        Most requests write nothing: what is read here is all that they need of the store.
        """
        now, store, key = asyncio.get_running_loop().time(), self._worker.store, self.key
        if self._is_touched(now):
            return store.tracked(key) or await store.get_tracked(key)
        record = await store.touch(key, self._ttl)
        self._touched = self._worker.recent(now)
        return record

    def _is_touched(self, now: float) -> bool:
        is_touched = now < self._touched + _REST * self._ttl
        return is_touched and self.connected.connection.phase is Phase.OPEN

    def load(self, record: bytes) -> None:
        """Set the state to that of the record, which another worker may have changed, with what requests here have
        changed and not stored yet."""
        if record != self.record:
            state = from_json(record)
            if state["saves"] < self._saves:
                return  # The store has lost the later one, which is stored again.
            if self.record is not None:
                self._update(_merged(self.state, self._export(), state))
            self.record = _shared(record)
            self._saves = state["saves"]
            self.first_change = state["change"]
            if self._owner_digest != state["owner"]:
                self._owner_digest = state["owner"]

    @property
    def has_changed(self) -> bool:
        """True if the state is not that of the record."""
        mark, record = self._sharing.mark(self.handled_by, self.connected.connection), self.record
        if mark is not None and record is not None and _MARKS.get(record) == mark:
            return False  # The usual case: nothing is serialized.
        exported = self._export()
        fields = {"owner": self._owner_digest, "change": self.first_change, "saves": self._saves, **exported}
        if record is not None and record == to_json(fields):
            _remember(record, mark)
            return False
        state = self.state
        return any(state.get(name) != value for name, value in exported.items())

    async def restore(self) -> bool:
        """Store the record again, which the store has lost, unless another worker has stored a later one. Return False
        if this worker has none."""
        record, stored = self.record, None
        while record is not None and not self.has_ended:
            is_open = self.connected.connection.phase is Phase.OPEN
            if await self._worker.store.put(self.key, record, self._ttl if is_open else self.handshake_ttl, stored):
                if stored is not None:  # The worker that has stored the older state may be sending its stream.
                    await self._worker.broadcast("state", session=self.id, sender=self._worker.id)
                return True
            stored = await self._worker.store.get(self.key)
            if stored is not None and from_json(stored)["saves"] >= self._saves:
                return True
        return False

    async def load_again(self) -> None:
        """Set the state to that of the store, which another worker has changed. Raises StoreUnavailableError."""
        record = await self._worker.store.get(self.key)
        if record is not None and self.session is not None and not self.has_ended:
            self.load(record)

    @property
    def has_unread(self) -> bool:
        """True if this worker has written messages to the stream of the session that may not be read yet."""
        return self._standalone is not None and self._standalone.has_written

    async def lost_messages(self) -> list[WrittenMessage]:
        """Return the messages of the session that the store has lost before they were read, and fail those that are
        requests: their answers never come. Raises StoreUnavailableError."""
        lost = [] if self._standalone is None else await self._standalone.lost_messages()
        for message in lost:
            if message.id is not None:
                self.connected.fail_request(message.id, StoreUnavailableError(_LOST_REQUEST))
        return lost

    async def restore_streams(self) -> None:
        """Let the streams of this worker go on, or end, after the store has lost its past."""
        for stream in [*(self._streams or {}).values(), *self._read_streams]:
            if isinstance(stream, StoredStream):
                await stream.restore()

    async def live_on(self) -> None:
        """Let the streams of this worker be stored as long as they are open."""
        for stream in [*(self._streams or {}).values(), *self._read_streams]:
            if isinstance(stream, StoredStream):
                await stream.live_on()

    async def save(self) -> None:
        """Store the state, if it has changed, with what other workers have changed meanwhile."""
        while self.has_changed and not self.has_ended:
            base = self.state
            state = {**base, "saves": base["saves"] + 1, **self._export()}
            ttl = self._ttl if state["phase"] == Phase.OPEN.name else self.handshake_ttl
            record = to_json(state)
            if await self._worker.store.put(self.key, record, ttl, expected=self.record):
                is_new = self.record is None
                self._saves = state["saves"]
                self.record = _shared(record)
                if is_new:
                    return None
                await self._worker.store.report()
                return await self._worker.broadcast("state", session=self.id, sender=self._worker.id)
            stored = await self._worker.store.get(self.key)
            if stored is None:
                if await self._worker.has_lost() and await self.restore():
                    continue
                self.has_ended = True
                return
            state = from_json(stored)
            if state["saves"] < self._saves and await self.restore():
                continue  # The store has lost the later one.
            merged = _merged(base, self._export(), state)
            self.record = stored
            self._saves = state["saves"]
            self._update(merged)

    # ---- streams -----------------------------------------------------------------------------------------------------

    @property
    def standalone_id(self) -> str:
        """The id of the stream for messages that belong to no POST."""
        return f"s_{session_digest(self.id, 'standalone')}"

    @property
    def standalone_stream(self) -> StandaloneStream:
        """The SSE stream for messages that belong to no POST."""
        if self._standalone is None:
            self._standalone = StandaloneStream(self._worker, self.standalone_id, self._ttl, self._retry)
        return self._standalone

    def abandon(self, requests: Sequence[Id], reason: str) -> None:
        """Cancel the handlers of requests, whose stream has ended with an error."""
        for id in requests:
            self.connected.cancel_handler(id, reason)

    def writes(self, stream: str) -> bool:
        """Return True if a stream of this session is written here."""
        own = (self._streams or {}).get(stream)
        return isinstance(own, StoredStream) and not (own.is_lost or own.finished)

    @property
    def is_busy(self) -> bool:
        """True if a stream has a connection or a handler runs here, so that the session is not idle."""
        is_running = self.session is not None and self.session.is_busy
        return is_running or any(stream.is_attached for stream in self._read_streams) or super().is_busy

    @property
    def _resumed_streams(self) -> list[StoredStream]:
        return [] if self._resumed is None else list(self._resumed.values())

    @property
    def _read_streams(self) -> list[StoredStream]:
        """The streams that GET requests may have here."""
        return self._resumed_streams if self._standalone is None else [self._standalone, *self._resumed_streams]

    def messages_of(self, change: Change) -> Sequence[bytes]:
        """Return the messages of a change for the client: none if it does not want it, and several for the change of
        everything."""
        if change[1] == EVERYTHING:
            return self._sharing.missed(self.handled_by, self.connected.connection)
        message = self._sharing.change(self.handled_by, self.connected.connection, change[1], change[2])
        return () if message is None else (message,)

    def open_response_stream(self, message: Message | list[Message]) -> SSEStream:
        """Return a new stream for the answers to a posted message, which knows the requests that it answers."""
        stream = self.open_stream()
        if isinstance(stream, StoredStream):
            if isinstance(message, RequestMessage):
                stream.requests = (message.id,)
            elif isinstance(message, list):
                stream.requests = [item.id for item in message if isinstance(item, RequestMessage)]
        return stream

    def _new_stream(self) -> SSEStream:
        id = f"{self._worker.new_token()}_{self._binding or self._bind()}"
        return StoredStream(self._worker, id, self._ttl, self._retry, self)

    def _bind(self) -> str:
        self._binding = session_digest(self.id, "response")
        return self._binding

    async def find_stream(self, id: str) -> StoredStream | None:
        """Return the stream of an id, which another worker may have opened; None if there is none."""
        own = (self._streams or {}).get(id)
        if isinstance(own, StoredStream) and not own.is_lost:
            return own  # Of one that was given up here, the store has the end.
        if id.partition("_")[2] != (self._binding or self._bind()):
            return None
        if self._resumed is None:
            self._resumed = weakref.WeakValueDictionary()
        stream = self._resumed.get(id) or StoredStream(self._worker, id, self._ttl, self._retry)
        self._resumed[id] = stream
        return stream if await self._worker.becomes_stored(id, stream.is_stored) else None

    async def drain(self) -> None:
        """Wait until few messages of the standalone stream are unsent."""
        if self._standalone is not None:
            await self._standalone.drain()

    def hand_over(self) -> None:
        """Close the connections of GET requests."""
        for stream in self._read_streams:
            if stream.is_attached:
                stream.close_connection()

    async def close(self) -> None:
        """End the connections of this worker; delete its streams if the session has ended."""
        if self._standalone is not None:
            self._standalone.finish()
        for resumed in self._resumed_streams:
            resumed.drop()
        if self.has_ended:
            await super().close()
            self._worker.drop_now()


def _merged(base: Mapping[str, Any], own: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return a stored state with the changes that were made here since `base`."""
    merged = {**stored, **{name: own[name] for name in _CHANGING if own[name] != base.get(name)}}
    before = {*base.get("uris", ())}
    merged["uris"] = sorted(({*stored["uris"]} | ({*own["uris"]} - before)) - (before - {*own["uris"]}))
    return merged
