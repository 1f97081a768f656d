"""Messages go in, in order, and Server-Sent Events come out on the one connection that is attached at the time."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from ...aio.keepalive import KeepAliveTimer
from ...protocol.sse import KEEP_ALIVE_COMMENT, encode
from .event_store import EventStore

_log: Final = logging.getLogger(__name__)

RETRY: Final = 500  # Milliseconds a client is asked to wait before it comes back to a stream that was parted from.
_FULL: Final = 256  # Messages that may wait for a connection before who sends them has to wait as well.

Write = Callable[[bytes], Awaitable[None]]


class SSEStream:
    """One stream of a server's messages, whichever connections it goes over; each message gets a number.

    Only one connection is attached at a time: a new one takes over, so that no message is ever sent on two.
    """

    __slots__ = (
        "id",
        "last",
        "size",
        "finished",
        "_store",
        "_delivered",
        "_attached",
        "_was_attached",
        "_is_notified",
        "_waiting",
        "_room",
        "_closed_connection",
        "_resumable",
    )

    def __init__(self, store: EventStore, resumable: bool = True) -> None:
        self.id = secrets.token_urlsafe(16).replace("-", "_")
        self.last = 0
        self.size = 0  # Bytes of all its messages.
        self.finished = False
        self._store = store
        self._delivered = 0
        self._attached: object | None = None
        self._was_attached = False
        self._is_notified = False  # Whether there may be something to do since it was looked last.
        self._waiting: asyncio.Future[bool] | None = None
        self._room: asyncio.Event | None = None
        self._closed_connection = False
        self._resumable = resumable

    def put(self, message: bytes) -> None:
        """Take a message to be sent; it is kept until the stream is dropped."""
        self.last += 1
        self.size += len(message)
        self._store.add(self.id, self.last, message)
        self._notify()

    def finish(self) -> None:
        """Nothing comes any more: the connection ends when all is sent."""
        self.finished = True
        self._notify()

    def close_connection(self) -> None:
        """End the connection, not the stream: the client is to come back for the rest."""
        self._closed_connection = (
            self._attached is not None or not self._was_attached
        )  # Before the first one, that one is meant.
        self._notify()

    def drop(self) -> None:
        """End the stream, and forget what was sent on it."""
        self.finish()
        self._attached = None
        self._store.drop(self.id)

    @property
    def is_attached(self) -> bool:
        """Whether a connection is attached."""
        return self._attached is not None

    async def drain(self) -> None:
        """Wait while the connection that is attached is far behind."""
        while self._is_full():
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def _is_full(self) -> bool:
        return self._attached is not None and self.last - self._delivered > _FULL

    def attach(self, connection: object) -> None:
        """Take the stream over for a connection; whatever was attached before is let go."""
        self._attached = connection
        self._was_attached = True
        self._notify()

    def release(self, connection: object) -> None:
        """A connection is gone; what comes now waits for another."""
        if self._attached is connection:
            self._attached = None
            self._make_room()
            self._notify()

    async def pump(
        self,
        connection: object,
        write: Write,
        keep_alive: KeepAliveTimer,
        after: int | None = None,
        priming_event: bool = False,
    ) -> None:
        """Send over an attached connection all that comes after this number, or after what was sent last, until the
        stream is finished, the connection is released, or `part` is called. `primed` begins with an empty event,
        which tells where to resume; after too long a `silence` a comment is sent."""
        cursor = self._delivered if after is None else min(after, self.last)
        if priming_event:
            await write(encode(b"", id=f"{self.id}-{cursor}", retry=RETRY))
        while self._attached is connection:
            self._is_notified = False
            cursor = await self._send_from(connection, write, cursor)
            if self._attached is not connection:
                return
            if not self._resumable and cursor == self.last:
                self._store.drop(self.id)  # Nobody can come back for it.
            if self.finished or self._closed_connection:
                break
            if not self._is_notified:
                # Waited for here, and not in a function of its own: very many streams wait at once.
                waiting = self._waiting = asyncio.get_running_loop().create_future()
                keep_alive.begin(waiting)
                try:
                    is_silent = not await waiting
                finally:
                    keep_alive.end(waiting)
                    if self._waiting is waiting:  # And not that of a connection that took over.
                        self._waiting = None
                if is_silent:
                    await write(KEEP_ALIVE_COMMENT)
        if self._closed_connection and not self.finished and self._attached is connection:
            await write(b"retry: %d\n\n" % RETRY)
            self._closed_connection = False
        self.release(connection)

    async def _send_from(self, connection: object, write: Write, cursor: int) -> int:
        """Send what came after a number, as long as the connection is attached; the number of what was sent last."""
        for number, message in self._store.after(self.id, cursor):
            if number > cursor + 1:
                _log.warning("%d messages of a stream were not kept for a client that was away", number - cursor - 1)
            await write(encode(message, id=f"{self.id}-{number}" if self._resumable else ""))
            if self._attached is not connection:
                break
            cursor = self._delivered = number
            self._make_room()
        return cursor

    def _make_room(self) -> None:
        if self._room is not None and not self._is_full():
            self._room.set()
            self._room = None

    def _notify(self) -> None:
        self._is_notified = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(True)
