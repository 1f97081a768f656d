"""SSE streams whose messages are in the store before they are sent, so that any worker can resume them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from mcp_runtime.http.asgi import PartedResponse
from mcp_runtime.protocol.jsonrpc import Id
from mcp_runtime.stores import STREAM_LIMIT, NumberedEntry, StoreUnavailableError
from mcp_runtime.transports.http_server.events import InMemoryEventStore
from mcp_runtime.transports.http_server.streams import RETRY, SSEStream

from .claims import StreamClaim, send_to_holder
from .worker import Worker, failures

# What another worker has to know of a stream: the scopes that its reader needs, and the requests that it answers.
#
# Most streams have it before their first message, in the same entry of the store. It is in a record of its own if the
# stream may be resumed before, if its scopes change, and before the first entries of a long stream are deleted.

_MARK: Final = b"\x01"  # Begins an entry with a registration. A message begins with a brace or a bracket.
_LINE: Final = b"\n"

END: Final = b""  # The last entry of a stream that has ended.
_MAX_UNSTORED: Final = 256  # Messages above which `drain` waits.
_NO_EVENTS: Final = InMemoryEventStore()
_NOTHING: Final[list[bytes]] = []  # One object, which is not changed: very many streams have nothing to store.
_NO_SCOPES: Final[frozenset[str]] = frozenset()  # One object: an empty frozenset has 216 bytes.
_LONG: Final = STREAM_LIMIT // 2  # Messages after which the first entry may be deleted.
_FINISHED_SECONDS: Final = 300.0  # Seconds for which a finished stream can be resumed.
_LOST: Final = "the store of this server has lost messages of this call, which may have run"
_log: Final = logging.getLogger("mcp_runtime.workers.sessions.streams")
PAGE: Final = 64  # Entries that are read at once.


class Registration(NamedTuple):
    """The scopes that the reader of a stream needs, and the ids of the requests that the stream answers."""

    scopes: Collection[str] = ()
    requests: Sequence[Id] = ()

    @classmethod
    async def of(cls, worker: Worker, stream: str) -> Registration:
        """Return the registration of a stream, with the scopes of the record and of the first entry."""
        record = await worker.store.get(worker.key("registered", stream))
        lines = [] if record is None else [record]
        for _, entry in await worker.read(stream, 0, 1):
            if entry.startswith(_MARK):
                lines.append(entry[len(_MARK) :].partition(_LINE)[0])
        read = [cls(*from_json(line)) for line in lines]
        return cls(sorted({scope for item in read for scope in item.scopes}), read[0].requests if read else ())

    async def store(self, worker: Worker, stream: str, ttl: float) -> None:
        """Store the registration of a stream in a record of its own."""
        await worker.store.put(worker.key("registered", stream), self._encoded(), ttl)

    def before(self, message: bytes) -> bytes:
        """Return the entry of the first message of a stream, with the registration."""
        return b"".join((_MARK, self._encoded(), _LINE, message))

    def _encoded(self) -> bytes:
        return to_json([sorted(self.scopes), self.requests])


def message_of(entry: bytes) -> bytes:
    """Return the message of an entry."""
    return entry.partition(_LINE)[2] if entry.startswith(_MARK) else entry


async def read_messages(worker: Worker, stream: str, after: int, limit: int) -> list[NumberedEntry]:
    """Return the messages of a stream that follow a number."""
    return [(number, message_of(entry)) for number, entry in await worker.read(stream, after, limit)]


# SSE streams that store their messages before they are sent.


class StreamOwner(Protocol):
    """The session of a stream. What has changed in it is stored before the messages."""

    @property
    def has_changed(self) -> bool:
        """True if its state is not stored."""
        ...

    async def save(self) -> None:
        """Store its state. Raises StoreUnavailableError."""

    def abandon(self, requests: Sequence[Id], reason: str) -> None:
        """Cancel the handlers of requests, whose stream has ended with an error."""


class _NoOwner:
    """The owner of a stream whose messages depend on no state of a session."""

    has_changed = False

    async def save(self) -> None:
        """Do nothing."""

    def abandon(self, requests: Sequence[Id], reason: str) -> None:
        """Do nothing."""


UNCHANGED: Final = _NoOwner()


def session_digest(session_id: str, name: str) -> str:
    """Return what binds a name to a session, without the id of the session itself."""
    return sha256(f"{session_id} {name}".encode()).hexdigest()[:16]


class StoredStream(SSEStream):
    """A stream of one response. The worker that runs the handler writes it; any worker sends it.

    A connection that resumes the stream takes it over, see `claims`, and its worker tells the one before to detach its
    own. The writer sends a hint to the worker with the connection when there is more to read.
    """

    __slots__ = ("_worker", "_ttl", "_owner", "_unstored", "_recent", "_stored", "_storing",
                 "_scheduled", "_ending", "_dropped", "_claim", "_scopes", "requests", "__weakref__")  # fmt: skip

    def __init__(
        self, worker: Worker, id: str, ttl: float, retry: int = RETRY, owner: StreamOwner | None = None
    ) -> None:
        """Create the local end of a stream.

        Args:
            worker: This worker.
            id: The id of the stream, with that of the worker that writes it.
            ttl: Seconds after its last message for which the stream is stored.
            retry: Milliseconds after which the client reconnects.
            owner: The session of the stream. Default None: this worker only reads.
        """
        super().__init__(_NO_EVENTS, retry=retry, id=id)
        self._worker = worker
        self._ttl = ttl
        self._owner = owner
        self._unstored = _NOTHING
        self._stored = 0
        self._recent: Sequence[tuple[int, bytes]] = ()  # Stored messages that the attached connection still gets.
        self._storing: object | None = None  # The task or the connection that stores messages.
        self._scheduled: asyncio.Handle | None = None  # Begins to store, unless the connection does so before.
        self._ending = self._dropped = False
        self._claim: StreamClaim | None = None  # That of the last connection that has taken the stream over here.
        self._scopes: frozenset[str] | None = None  # Those that are stored; None before `register`.
        self.requests: Sequence[Id] = ()  # The ids of the requests that the stream answers.

    def put(self, message: bytes) -> None:
        """Store a message; it is sent afterwards."""
        if self._ending:
            return
        self.last += 1
        self.size += len(message)
        if self._unstored:
            self._unstored.append(message)
        else:
            self._add_first(message)

    def finish(self) -> None:
        """End the stream: the connection ends when all messages are sent."""
        if not self._ending and self._owner is not None:
            self._ending = True
            self.last += 1
            self._ttl = min(self._ttl, _FINISHED_SECONDS)
            if self._unstored:
                self._unstored.append(END)
            else:
                self._add_first(END)

    def drop(self) -> None:
        """End the stream, and delete its messages."""
        if not self.finished or self._attached is not None or self._unstored:  # Otherwise all has been released.
            self._end_here()
        self._dropped = True
        if self._owner is not None:
            self._worker.drop(self.id)

    def _end_here(self) -> None:
        self._ending = self._dropped = self.finished = True
        self._unstored = _NOTHING
        self._attached = None
        self._worker.leave(self, self._owner is None)
        self._notify()

    @property
    def is_lost(self) -> bool:
        """True if the stream was dropped."""
        return self._dropped

    def close_connection(self) -> None:
        """Close the connection, wherever it is, but not the stream."""
        super().close_connection()
        if not self._closed_connection:
            self._worker.spawn(self._send_to_holder("close"))

    def _add_first(self, entry: bytes) -> None:
        """Add an entry to those that wait for being stored, of which there is none."""
        self._unstored = [entry]
        if self._storing is None and self._scheduled is None:
            self._worker.unstored.add(self)
            self._begin_storing()

    def _begin_storing(self) -> None:
        """Store the messages of this turn of the event loop in the next one: in the task of the first connection, or of
        one that waits for them."""
        if self._attached is not None and self._waiting is not None:
            self._notify()
        elif self._was_attached:
            self._scheduled = asyncio.get_running_loop().call_soon(self._store_in_task)

    def store_soon(self) -> None:
        """Store messages whose connection has not come, or has ended."""
        if self._unstored and self._storing is None and self._scheduled is None:
            self._store_in_task()

    def _store_in_task(self) -> None:
        self._scheduled = None
        self._storing = self._worker.spawn(self._store_all())

    async def _store_all(self) -> None:
        try:
            while self._unstored:
                await self._store_next()
        finally:
            self._storing = None
            self._worker.unstored.discard(self)

    async def _store_for(self, connection: object) -> None:
        """Store the messages in the task of a connection, which waits for them; if it is cancelled, in another."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        self._scheduled = None
        self._storing = connection
        batch = self._unstored
        try:
            await self._store_next()
        except asyncio.CancelledError:
            self._unstored = [*batch, *self._unstored]
            raise
        finally:
            self._storing = None
            if self._unstored:
                self._store_in_task()
            else:
                self._worker.unstored.discard(self)

    async def _store_next(self) -> None:
        """Store the messages that wait, and let them be sent."""
        batch = self._unstored
        self._unstored = _NOTHING
        self._add_registration(batch)
        try:
            try:
                if self._is_prepared(batch):  # The usual case, without a loop.
                    self._add_stored(batch, await self._append(batch))
                else:
                    await self._store_prepared(batch)
            except StoreUnavailableError:
                await self._worker.retry(partial(self._store_prepared, batch))
        except StoreUnavailableError:
            self._give_up()
            raise
        self._make_room()
        if self._attached is not None:
            return None if self._attached is self._storing else self._look()
        self._recent = ()
        self.finished = self._ending
        if self._was_attached:
            await self._send_to_holder("news")

    def _add_registration(self, batch: list[bytes]) -> None:
        """Store what other workers have to know with the first message, unless nothing can fail or be refused after."""
        if self._stored or self._scopes is not None or (batch[-1] == END and self.auth is None):
            return
        scopes = self._checked_scopes()
        if self.requests and batch[0] != END and (scopes or batch[-1] != END):
            batch[0] = Registration(scopes, self.requests).before(batch[0])
            self._scopes = scopes

    async def _store_prepared(self, batch: list[bytes]) -> None:
        if self._owner is not None and self._owner.has_changed:
            await self._owner.save()
        if self._has_to_register(batch):
            last, _ = await asyncio.gather(self._append(batch), self.register())
        else:
            last = await self._append(batch)
        self._add_stored(batch, last)

    def _is_prepared(self, batch: list[bytes]) -> bool:
        """Return True if nothing has to be stored before or with messages."""
        return (self._owner is None or not self._owner.has_changed) and not self._has_to_register(batch)

    def _has_to_register(self, batch: list[bytes]) -> bool:
        """Return True if the registration has changed, or its entry may be deleted soon."""
        if self.auth is not None and self.auth.checked_scopes != (self._scopes or _NO_SCOPES):
            return True
        return self._scopes is not None and self._stored < _LONG <= self._stored + len(batch)

    def _give_up(self) -> None:
        """End the stream here. Its requests fail at other workers, as soon as the store can be reached."""
        self._end_here()
        self._worker.unwritten.add(self)

    def _append(self, batch: list[bytes]) -> Awaitable[int]:
        """Append messages; a second attempt appends nothing twice."""
        return self._worker.append(self.id, batch, self._ttl, self._stored)

    def _add_stored(self, batch: list[bytes], last: int) -> None:
        """Keep what is stored for the connection; `last` is the number of the last message."""
        before = self._stored
        messages = batch if before or self._scopes is None else [message_of(batch[0]), *batch[1:]]
        self._recent = [*self._recent, *enumerate(messages, before + 1)]
        self._stored = last

    async def _send_to_holder(self, hint: str) -> None:
        await send_to_holder(self._worker, self.id, hint)

    def _is_full(self) -> bool:
        return len(self._unstored) > _MAX_UNSTORED or super()._is_full()

    def _look(self) -> None:
        """Look whether there are messages to send."""
        self._notify()

    # ---- when time passes, and when the store has lost its past ------------------------------------------------------

    async def live_on(self) -> None:
        """Let the stream be stored, and found by the worker that writes it, while it is open, however long nothing is
        sent. Raises StoreUnavailableError."""
        if self._claim is not None and self.is_attached:
            await self._worker.store.touch(self._worker.key("holder", self.id), self._ttl)
        if self._owner is None or self._ending:
            return
        if self._stored:
            await self._append([])
        if self._scopes is not None:
            await self.register()

    async def restore(self) -> None:
        """Go on after the store has lost its past, or fail, if the client has not got all that is lost. Raises
        StoreUnavailableError."""
        if self._claim is not None and self.is_attached:
            await self._claim.restore()
            self._look()
        if self._dropped or self._owner is None:
            return
        if self._stored and (lost := await self._last_lost()):
            is_end = self._ending and lost == self._stored
            is_delivered = self._delivered >= lost - is_end
            if not is_delivered or not (self._ending or self._attached is not None):
                return await self._fail()
        if self._scopes is not None and not self._ending:
            await self.register()

    async def _last_lost(self) -> int:
        """Return the number of the last message that was stored and is not any more; 0 if there is none. Later ones may
        have been stored before anybody noticed the loss."""
        first = max(self._stored - STREAM_LIMIT, 0)  # Earlier ones have made room.
        stored = {number for number, _ in await self._worker.read(self.id, first, STREAM_LIMIT)}
        return next((number for number in range(self._stored, first, -1) if number not in stored), 0)

    async def _fail(self) -> None:
        """End the stream with errors for its requests."""
        errors = failures(self.requests, [], _LOST)
        if self._ending:
            self._stored = await self._append([*errors, END])
        else:
            for error in errors:
                self.put(error)
            self.finish()
            self.store_soon()
        if self._owner is not None:
            self._owner.abandon(self.requests, _LOST)
        await self.register()
        self._notify()

    # ---- what other workers have to know -----------------------------------------------------------------------------

    async def register(self) -> None:
        """Store that the stream exists, and the scopes that its reader needs. It may be resumed before its first
        message."""
        scopes = self._checked_scopes()
        await Registration(scopes, self.requests).store(self._worker, self.id, self._ttl)
        self._scopes = scopes

    def _checked_scopes(self) -> frozenset[str]:
        return _NO_SCOPES if self.auth is None else self.auth.checked_scopes

    async def required_scopes(self) -> list[str]:
        """Return the scopes that the request of this stream has needed."""
        if self._owner is not None:
            return sorted(self._checked_scopes())
        registration = await Registration.of(self._worker, self.id)
        self.requests = registration.requests  # For the errors, should the store lose the registration.
        return [*registration.scopes]

    def _known_number(self) -> int:
        """Return the number of the last message that the client has, or that the store has had."""
        return max(self._stored, self._delivered, 0 if self._owner is not None else self.last)

    async def end_failed(self, reason: str) -> None:
        """End a stream that its worker does not write any more: its requests fail, unless they were answered before."""
        requests = self.requests or (await Registration.of(self._worker, self.id)).requests
        entries = await read_messages(self._worker, self.id, 0, STREAM_LIMIT)
        if not entries or entries[-1][1] != END:
            rest = [*failures(requests, entries, reason), END]
            last = max(entries[-1][0] if entries else 0, self._known_number())
            self.last = await self._worker.append(self.id, rest, _FINISHED_SECONDS, last)
        self._notify()
        await self._send_to_holder("news")

    # ---- the connection ----------------------------------------------------------------------------------------------

    async def is_stored(self) -> bool:
        """Return True if there is such a stream."""
        store = self._worker.store
        self.last = max(self.last, await store.last(self._worker.stream_prefix + self.id))
        return self.last > 0 or await store.get(self._worker.key("registered", self.id)) is not None

    async def take_over(self) -> None:
        """Let the connection that is attached next have the stream."""
        claim = StreamClaim(self._worker, self.id, self._ttl)
        before, _ = await claim.take()
        self._claim = claim
        await self.replaced(before.token)

    async def replaced(self, token: str) -> None:
        """Tell the worker of the connection before that it has lost the stream, and look how far the stream is."""
        previous = self._worker.other_worker(token or self.id)
        if previous is not None:
            await self._worker.send(previous, "stream", stream=self.id, hint="release", token=token)
        self.last = max(self.last, await self._worker.store.last(self._worker.stream_prefix + self.id))

    def resume_after(self, number: int) -> None:
        """Know the number of the last message that the client has got, which the store may have lost."""
        if self._owner is None:
            self.last = max(self.last, number)

    def on_hint(self, hint: str, token: str = "") -> None:
        """Look for "news", "release" the connection with a token for another one, or "close" it."""
        if hint == "news":
            self._look()
        elif hint == "release" and token == ("" if self._claim is None else self._claim.token):  # "" is the POST.
            self.detach()
        elif hint == "close" and self._attached is not None:
            self.close_connection()

    def detach(self) -> None:
        """Detach the connection: another worker has one."""
        self._attached = None
        self._was_attached = True
        self._worker.leave(self, self._owner is None)
        self._recent = ()
        self._make_room()
        self._notify()
        if self._stored:
            self._worker.spawn(self._send_to_holder("news"))
        self.store_soon()

    def attach(self, connection: object) -> None:
        """Attach a connection; it gets the messages of a finished stream, too."""
        self.finished = self._dropped
        if self._stored or not self._ending:  # Otherwise all is sent with the first id that a client could resume with.
            self._worker.streams[self.id] = self
        if self._owner is None:
            self._worker.watched.add(self)
        super().attach(connection)

    def release(self, connection: object) -> None:
        """Detach a connection."""
        if self._attached is connection:
            self._recent = ()
            self._worker.leave(self, self._owner is None)
            super().release(connection)
            if self._unstored:
                self.store_soon()

    async def _begin(self, connection: object) -> None:
        if self.requests and (not self.last or (self._storing is not None and not self._stored)):
            try:  # Messages that wait are stored by the connection, before it sends the id.
                await self.register()
            except StoreUnavailableError as error:
                _log.warning("a stream was closed, because it cannot be stored: %s", error)
                self.release(connection)

    async def _send_from(self, connection: object, response: PartedResponse, cursor: int) -> int:
        """Send the messages after a number; see `SSEStream`."""
        writes = self._owner is not None
        try:
            while self._attached is connection and not self._dropped:
                if writes and cursor >= self._stored:
                    # If others find the stream, its head is sent first, unless there will soon be all of the rest.
                    if not self._ending and (self._stored or self._scopes is not None):
                        await response.flush()
                    if self._unstored and self._storing is None:
                        await self._store_for(connection)
                if writes and cursor >= self._stored:
                    break
                entries = self._take_recent(cursor)
                if entries is None:
                    await response.flush()
                    entries = await read_messages(self._worker, self.id, cursor, PAGE)
                if not entries and writes and self._attached is connection:
                    await self._fail()  # What was stored is gone.
                if not entries or self._attached is not connection:
                    break
                ends = entries[-1][1] == END
                if messages := entries[:-1] if ends else entries:
                    cursor = await self._send_messages(connection, response, cursor, messages, ends)
                if ends and self._attached is connection:
                    self.finished = True
                    break
        except StoreUnavailableError as error:
            self._close_unread(connection, error)
        return cursor

    def _take_recent(self, cursor: int) -> Sequence[NumberedEntry] | None:
        """Return the next messages, if this worker has just stored them."""
        recent = self._recent
        self._recent = ()
        if recent and recent[0][0] <= cursor:
            recent = [entry for entry in recent if entry[0] > cursor]
        return recent if recent and recent[0][0] == cursor + 1 else None

    def _close_unread(self, connection: object, error: StoreUnavailableError) -> None:
        """End the connection; its client resumes the stream, here or at another worker."""
        _log.warning("a stream was closed, because its messages cannot be read: %s", error)
        self.release(connection)
