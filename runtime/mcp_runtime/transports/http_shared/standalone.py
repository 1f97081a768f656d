"""The standalone SSE stream of a session: messages of all workers, and the changes that its server announces."""

from __future__ import annotations

import asyncio

from pydantic_core import to_json

from ...protocol.sse import encode
from ..http_server.streams import RETRY, Write
from .stored_streams import StoredStream, position_of
from .worker import Worker


async def _ready() -> None:
    """Prepare nothing: messages of the standalone stream depend on no state of the session."""


class StandaloneStream(StoredStream):
    """The stream of a session's GET requests. Any worker writes to it; a GET takes it over from the one before.

    Changes are not stored for each session: they are in the log of all changes, and the id of an event has two numbers,
    that of the last message and that of the last change.
    """

    __slots__ = ("change", "_changes", "is_listening", "_token")

    def __init__(self, worker: Worker, id: str, ttl: float, retry: int = RETRY) -> None:
        super().__init__(worker, id, ttl, retry, _ready)
        self.change = 0  # The number of the last change that the client has got.
        self._changes: list[tuple[int, bytes | None]] = []  # Empty lists are small, and most sessions have no stream.
        self.is_listening = False
        self._token: tuple[list[bytes], str] | None = None  # The batch that is being stored, and its token.

    def event_id(self, number: int) -> str:
        """Return the id of an event: where the client is in its messages, and in the changes."""
        return f"{self.id}.{self.change}-{number}"

    def listen(self, number: int, change: int) -> None:
        """Send from these numbers on."""
        self._delivered, self.change, self.is_listening = number, change, True
        self._changes.clear()

    def put_change(self, number: int, message: bytes | None) -> None:
        """Send a change; None if the client does not want it, which only counts."""
        if self.is_listening and number > (self._changes[-1][0] if self._changes else self.change):
            self._changes.append((number, message))
            self._notify()

    async def drain(self) -> None:
        """Wait until the messages are stored, and few of them unsent."""
        if self._storing is not None:
            await asyncio.wait([self._storing])
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
        """Detach the connection: another worker has one."""
        self.is_listening = False
        super().detach()

    def release(self, connection: object) -> None:
        """Detach a connection."""
        if self._attached is connection:
            self.is_listening = False
        super().release(connection)

    def _give_up(self) -> None:
        self.finished = True  # The connection ends.
        self._notify()

    async def _store_batch(self, batch: list[bytes]) -> None:
        if self._token is None or self._token[0] is not batch:
            self._token = (batch, self._worker.new_token())
        self._stored = await self._worker.append(self.id, batch, self._ttl, self._stored, self._token[1])
        self.last = self._stored
        self._was_attached = True  # Another worker may have the connection.

    async def _next_entries(self, cursor: int) -> list[tuple[int, bytes]]:
        return await self._worker.read(self.id, cursor, 64)

    async def _send_from(self, connection: object, write: Write, cursor: int) -> int:
        before = (cursor, self.change)
        cursor = await super()._send_from(connection, write, cursor)
        while self._changes and self._attached is connection:
            number, message = self._changes[0]
            self.change = number
            if message is not None:
                await write(encode(message, id=self.event_id(cursor)))
            self._changes.pop(0)
        if self._attached is connection and (cursor, self.change) != before:
            await self._record_position(cursor)
        return cursor

    async def _record_position(self, cursor: int) -> None:
        """Store where the client is, for a GET without `Last-Event-ID`; end if another worker has the connection."""
        key, store, own = self._worker.key("holder", self.id), self._worker.store, self._worker.id
        await asyncio.sleep(0)  # A change goes to all streams first.
        record = to_json([own, cursor, self.change])
        if self._held is not None and await store.put(key, record, self._ttl, expected=self._held):
            self._held = record
            return
        value = await store.get(key)
        if value is not None and position_of(value)[0] != own:
            return self.detach()
        if await store.put(key, record, self._ttl, expected=value):
            self._held = record
