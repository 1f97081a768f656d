"""The standalone SSE stream of a session: messages of all workers, and the changes that its server announces."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple, Protocol

from pydantic_core import from_json

from mcp_runtime.http.asgi import PartedResponse
from mcp_runtime.http.sse import encode
from mcp_runtime.protocol.jsonrpc import Id
from mcp_runtime.stores import STREAM_LIMIT, StoreUnavailableError
from mcp_runtime.transports.http_server.streams import RETRY

from .changes import Change, ChangeLog
from .claims import Position, StreamClaim, position_in, position_of
from .streams import PAGE, UNCHANGED, StoredStream
from .worker import Worker

_NOTHING: Final[list[tuple[int, bytes]]] = []  # One object, which is not changed: very many streams have no changes.


class ChangeClient(Protocol):
    """The session whose client gets changes."""

    def messages_of(self, change: Change) -> Sequence[bytes]:
        """Return the messages of a change for the client: none if it does not want it, and several for the change of
        everything."""
        ...


class WrittenMessage(NamedTuple):
    """What is known of a message without its body: its number or a higher one, its method, and its id if it has one."""

    number: int
    method: str
    id: Id | None


class StandaloneListener(StreamClaim):
    """One GET of the stream at this worker: its claim, where it is, and the changes that it has not sent yet."""

    __slots__ = ("number", "change", "queue", "_stream", "_log", "_client", "_seen")

    def __init__(
        self, stream: StandaloneStream, log: ChangeLog, client: ChangeClient, worker: Worker, ttl: float
    ) -> None:
        """Create a listener.

        Args:
            stream: The stream.
            log: The changes of the server.
            client: The session.
            worker: This worker.
            ttl: The time to live of the record of who sends the stream, in seconds.
        """
        super().__init__(worker, stream.id, ttl)
        self._stream = stream
        self._log = log
        self._client = client
        self.number = 0  # Of the last message that was sent before.
        self.change = self._seen = 0  # The last change that the client has got, and the last one of the log.
        self.queue = _NOTHING

    async def take_over(self, position: tuple[int, int] | None, first_change: int) -> None:
        """Take the stream over, at a position or else where it is; `first_change` precedes the session."""
        number, change = position or (None, 0)
        before, now = await self.take(number, change, self._stream.known_position)
        await self._stream.replaced(before.token)
        self.number = min(now.number, self._stream.last)
        self.change = max(now.change, first_change)
        self._seen = self.change

    async def read_log(self) -> None:
        """Get changes from now on, and those before that the client has not got."""
        if not self._log.has_reader(self):
            await self._log.attach(self, self.change)
            if not self._stream.has_listener(self):
                self.end()

    def put_change(self, change: Change) -> None:
        """Send a change to the client, if it wants it."""
        if change[0] <= self._seen:
            return
        self._seen = change[0]
        messages = self._client.messages_of(change)
        if messages:
            if not self.queue:
                self.queue = []
            # Only the last one has the number: whoever goes on after another one gets all of them.
            self.queue += [(change[0] - 1, message) for message in messages[:-1]]
            self.queue.append((change[0], messages[-1]))
            self._stream.wake()
        elif not self.queue:
            self.change = change[0]  # Nothing is sent: the record may be behind.

    def begin_before(self, number: int) -> None:
        """Let a change have a lower number than those before."""
        self._seen = min(self._seen, number - 1)
        self.change = min(self.change, number - 1)

    def end(self) -> None:
        """Get no more changes."""
        self._log.detach(self)


class StandaloneStream(StoredStream):
    """The stream of a session's GET requests. Any worker writes to it; a GET takes it over from the one before.

    Changes are not stored for each session: they are in the log of all changes, and the id of an event has two numbers,
    that of the last message and that of the last change. Both are stored before they are sent, see `claims`.
    """

    __slots__ = ("_has_news", "_token", "_former", "_written")

    def __init__(self, worker: Worker, id: str, ttl: float, retry: int = RETRY) -> None:
        super().__init__(worker, id, ttl, retry, UNCHANGED)
        self._has_news = False  # True if messages may have been stored since the store was last read.
        self._former: StandaloneListener | None = None  # The last one, while no connection is attached.
        self._token: tuple[list[bytes], str] | None = None  # The batch that is being stored, and its token.
        self._written: deque[WrittenMessage] | None = None  # Those of this worker that nobody may have read yet.

    async def known_position(self, record: bytes | None) -> Position:
        """Return the position that is stored, or that another worker stores again after a loss. If the last connection
        here was further, the store has lost that: it is where the stream is. Raises StoreUnavailableError."""
        if record is None:
            key = self._worker.key("holder", self.id)
            record = await self._worker.restored_quickly(lambda: self._worker.store.get(key))
        position, claim = position_in(record), self._listener or self._former
        if claim is None:
            return position
        own = claim.position
        return Position(position.token or own.token, max(position.number, own.number), max(position.change, own.change))

    def new_listener(self, log: ChangeLog, client: ChangeClient) -> StandaloneListener:
        """Return the listener of a GET, which has not taken the stream over yet."""
        return StandaloneListener(self, log, client, self._worker, self._ttl)

    def listen(self, listener: StandaloneListener) -> None:
        """Let the connection that is attached next have a listener."""
        self._set_listener(listener)
        self._delivered = listener.number
        self._has_news = True

    def has_listener(self, listener: StandaloneListener) -> bool:
        """Return True if this listener is that of the attached connection."""
        return self._listener is listener

    def wake(self) -> None:
        """Send what is new."""
        self._notify()

    def event_id(self, number: int) -> str:
        """Return the id of an event: where the client is in its messages, and in the changes."""
        change = 0 if self._listener is None else self._listener.change
        return f"{self.id}.{change}-{number}"

    async def drain(self) -> None:
        """Wait until the messages are stored, and few of them unsent. Raises StoreUnavailableError."""
        if asyncio.isfuture(self._storing):
            await asyncio.shield(self._storing)
        await super().drain()

    def finish(self) -> None:
        """End the connection; the stream itself ends with its session."""
        self._dropped = self.finished = True
        self._notify()

    def close_connection(self) -> None:
        """Close the connection, wherever it is, but not the stream."""
        if self.is_attached:
            super().close_connection()
        else:
            self._worker.spawn(self._send_to_holder("close"))

    def detach(self) -> None:
        """Detach the connection: another one has the stream."""
        self._set_listener(None)
        self._former = None
        super().detach()

    async def restore(self) -> None:
        """Go on where the client is, after the store has lost its past. Raises StoreUnavailableError."""
        claim = self._listener or self._former
        if claim is not None and not self._dropped:
            await claim.restore()
            self._look()

    @property
    def has_written(self) -> bool:
        """True if there are messages of this worker that may not be read yet."""
        return bool(self._written)

    async def lost_messages(self) -> list[WrittenMessage]:
        """Return the messages of this worker that the store has lost before they were read, at most: a client may have
        read them whose position the store has lost as well. They are returned once. Raises StoreUnavailableError."""
        if not self._written:
            return []
        read = await self._read_number()
        stored = {number for number, _ in await self._worker.read(self.id, read, STREAM_LIMIT)}
        unread = [message for message in self._written or () if message.number > read]
        self._written = deque((message for message in unread if message.number in stored), STREAM_LIMIT)
        return [message for message in unread if message.number not in stored]

    async def _read_number(self) -> int:
        position = await position_of(self._worker, self.id)
        return max(position.number, self._delivered if self.is_attached else 0)

    def _note_written(self, batch: list[bytes], last: int) -> None:
        if self._written is None:
            self._written = deque(maxlen=STREAM_LIMIT)
        for message in batch:
            fields = from_json(message)
            self._written.append(WrittenMessage(last, fields.get("method", "response"), fields.get("id")))
        if not self.is_attached and len(self._written) % PAGE == 0:
            self._worker.spawn(self._forget_read())

    async def _forget_read(self) -> None:
        """Forget what the client has read at another worker."""
        read = await self._read_number()
        self._written = deque((message for message in self._written or () if message.number > read), STREAM_LIMIT)

    def release(self, connection: object) -> None:
        """Detach a connection."""
        if self._attached is connection:
            self._set_listener(None)
        super().release(connection)

    def _set_listener(self, listener: StandaloneListener | None) -> None:
        if self._listener is not None:
            self._listener.end()
        self._former = self._listener if listener is None else None
        self._claim = listener

    @property
    def _listener(self) -> StandaloneListener | None:
        """What the attached connection has, or the one that is attached next: its claim is no other one."""
        return self._claim if isinstance(self._claim, StandaloneListener) else None

    def _look(self) -> None:
        self._has_news = True
        self._notify()

    def _give_up(self) -> None:
        self._unstored = []  # Their senders get the error.
        self.finished = True  # The connection ends.
        self._notify()

    def _begin_storing(self) -> None:
        self._store_in_task()

    def _append(self, batch: list[bytes]) -> Awaitable[int]:
        if self._token is None or self._token[0] is not batch:
            self._token = (batch, self._worker.new_token())
        return self._worker.append(self.id, batch, self._ttl, self._stored, self._token[1])

    def _add_stored(self, batch: list[bytes], last: int) -> None:
        self.last = self._stored = last
        self._note_written(batch, last)
        self._was_attached = True  # Another worker may have the connection.

    async def _send_from(self, connection: object, response: PartedResponse, cursor: int) -> int:
        try:
            return await self._send_news(connection, response, cursor)
        except StoreUnavailableError as error:
            self._close_unread(connection, error)
            return cursor

    async def _send_news(self, connection: object, response: PartedResponse, cursor: int) -> int:
        listener = self._listener
        assert listener is not None, "an attached connection has a listener"
        await response.flush()
        await listener.read_log()
        reads = self._has_news or not listener.queue  # Changes need nothing of the store.
        while self._attached is connection and not self._dropped and (reads or listener.queue):
            self._has_news = False
            entries = await self._worker.read(self.id, cursor, PAGE) if reads else []
            if entries or listener.queue:
                cursor = await self._send_claimed(listener, connection, response, cursor, entries)
            reads = self._has_news or len(entries) == PAGE
        return cursor

    async def _send_claimed(
        self,
        listener: StandaloneListener,
        connection: object,
        response: PartedResponse,
        cursor: int,
        entries: list[tuple[int, bytes]],
    ) -> int:
        """Send messages and the changes that wait, if no other connection has the stream."""
        changes = listener.queue
        listener.queue = _NOTHING
        number = entries[-1][0] if entries else cursor
        if not await listener.advance(number, changes[-1][0] if changes else listener.change):
            if self._attached is connection:
                self.detach()
            return cursor
        if self._attached is not connection and await listener.give_back():
            return cursor
        for at, message in entries:
            response.add(encode(message, id=f"{self.id}.{listener.change}-{at}"))
            if response.is_large:
                await response.flush()
        for change, message in changes:
            response.add(encode(message, id=f"{self.id}.{change}-{number}"))
            listener.change = max(listener.change, change)
        await response.flush()
        if self._attached is connection:
            self._delivered = number
            self._delivered_size = self.size
            if self._written and self._written[-1].number <= number:
                self._written = None
            self._make_room()
        return number
