"""The right to send a stream: one connection of one worker has it, and loses it to the next one.

The record `holder` of a stream has the token of the connection that may send it, and the numbers of the last message
and of the last change that this connection sends. What follows holds at any delay of the store, and between any two
awaits:

1. The record changes only by compare-and-set: from what the connection that has it stored last, or, when another
   connection takes the stream over, from whatever is there. No two connections ever have the same number.
2. A message is in the store before its number is in the record, and its number is there before it is sent.
3. A connection that has stored numbers sends these messages, also when another one has taken the stream over meanwhile.
   If it has lost its client before it could, it gives the numbers back, unless they are taken over already.
4. A connection begins after the event that `Last-Event-ID` names, or else after the numbers of the record, or those of
   the last connection at this worker: they are later only if the store has gone back.
5. What a connection needs belongs to it alone, and it is attached without an await after it has read where it begins:
   the end of a former connection, or a late message about it, changes nothing.
6. Messages between workers only say that there is more to read. A connection reads the store after it has taken the
   stream over, when it gets such a message, and before each keep-alive comment.

So nothing is sent twice, and nothing is left out, but for one case: a client that has no id of an event yet, and whose
worker is killed between the store and the connection. The streams of responses have no such numbers, because their
clients always name where they go on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from pydantic_core import from_json, to_json

from mcp_runtime.stores import StoreUnavailableError

from .worker import Worker

_log: Final = logging.getLogger("mcp_runtime.workers.sessions.claims")


class Position(NamedTuple):
    """Who sends a stream, and how far."""

    token: str = ""  # Of a connection; it begins with the id of its worker.
    number: int = 0  # Of the last message.
    change: int = 0  # The number of the last change.


async def position_of(worker: Worker, stream: str) -> Position:
    """Return the position that a stream has in the store."""
    return position_in(await worker.store.get(worker.key("holder", stream)))


async def send_to_holder(worker: Worker, stream: str, hint: str) -> None:
    """Send a hint to the worker that has the connection of a stream, if it is another one."""
    try:
        position = await worker.retry(partial(position_of, worker, stream))
        if (holder := worker.other_worker(position.token)) is not None:
            await worker.retry(partial(worker.send, holder, "stream", stream=stream, hint=hint))
    except StoreUnavailableError as error:
        _log.warning("the worker with the connection of a stream reads it later: %s", error)


def position_in(record: bytes | None) -> Position:
    """Return the position that a record has; the first one for None."""
    return Position() if record is None else Position(*from_json(record))


KnownPosition = Callable[[bytes | None], Awaitable[Position]]  # Of what is stored.


class StreamClaim:
    """The right of one connection to send a stream."""

    __slots__ = ("_worker", "_id", "_ttl", "_record", "_former")

    def __init__(self, worker: Worker, stream: str, ttl: float) -> None:
        """Create a claim on the stream of an id; `ttl` is the time to live of its record, in seconds."""
        self._worker = worker
        self._id = stream
        self._ttl = ttl
        self._record = self._former = to_json(Position(worker.new_token()))

    @property
    def token(self) -> str:
        """What names the connection. Only the record has it: very many connections wait."""
        return self._record.split(b'"', 2)[1].decode()  # Parsers of JSON keep strings that they have read.

    @property
    def position(self) -> Position:
        """The position that this connection has stored last."""
        return position_in(self._record)

    async def take(
        self, number: int | None = None, change: int = 0, known: KnownPosition | None = None
    ) -> tuple[Position, Position]:
        """Take the stream over, at these numbers or else where it is; return the positions before and now.

        `known` returns where it is, whatever is stored: the store may have lost the record, or have an older one again.
        """
        key, store = self._worker.key("holder", self._id), self._worker.store
        while True:
            value = await store.get(key)
            before = position_in(value) if known is None else await known(value)
            now = Position(self.token, before.number, before.change)
            if number is not None:
                now = Position(self.token, number, change)
            record = to_json(now)
            if await store.put(key, record, self._ttl, expected=value):
                self._record = self._former = record
                return before, now

    async def advance(self, number: int, change: int) -> bool:
        """Store how far the connection sends. Return False if another one has taken the stream over."""
        key, store = self._worker.key("holder", self._id), self._worker.store
        record = to_json((self.token, number, change))
        self._former = self._record
        former = self._record
        try:
            is_stored = await store.put(key, record, self._ttl, expected=former)
            if not is_stored and await store.get(key) is None:  # The record has expired.
                is_stored = await store.put(key, record, self._ttl, expected=None)
            elif not is_stored and await self._worker.has_lost():  # The record is older than what was lost.
                is_stored = await store.put(key, record, self._ttl)
        except StoreUnavailableError:  # Nothing is sent, but the record may have been changed.
            self._worker.spawn(self._worker.retry(lambda: store.put(key, former, self._ttl, expected=record)))
            raise
        if is_stored:
            self._record = record
        return is_stored

    async def restore(self) -> None:
        """Store the record again, after the store has lost its past. Raises StoreUnavailableError."""
        await self._worker.store.put(self._worker.key("holder", self._id), self._record, self._ttl)

    async def give_back(self) -> bool:
        """Undo the last `advance`, before anything was sent. Return False if the stream is taken over already."""
        key, store = self._worker.key("holder", self._id), self._worker.store
        is_stored = await store.put(key, self._former, self._ttl, expected=self._record)
        if is_stored:
            self._record = self._former
        return is_stored
