"""Messages go in, in order, and Server-Sent Events come out on the one connection that is attached at the time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from ...exchange import log
from ...sse import COMMENT, encode
from .events import EventStore

RETRY: Final = 500  # Milliseconds a client is asked to wait before it comes back to a stream that was parted from.
KEEP_ALIVE: Final = 15.0  # Seconds of silence after which a comment is sent, so that no proxy takes it for death.
_FULL: Final = 256  # Messages that may wait for a connection before who sends them has to wait as well.

Write = Callable[[bytes], Awaitable[None]]


class Stream:
    """One stream of a server's messages, whichever connections it goes over; each message gets a number.

    Only one connection is attached at a time: a new one takes over, so that no message is ever sent on two.
    """

    __slots__ = (
        "id",
        "last",
        "finished",
        "_store",
        "_delivered",
        "_attached",
        "_wake",
        "_room",
        "_parted",
        "_resumable",
    )

    def __init__(self, store: EventStore, resumable: bool = True) -> None:
        self.id = secrets.token_urlsafe(16).replace("-", "_")
        self.last = 0
        self.finished = False
        self._store = store
        self._delivered = 0
        self._attached: object | None = None
        self._wake: asyncio.Event | None = None
        self._room: asyncio.Event | None = None
        self._parted = False
        self._resumable = resumable

    def put(self, message: bytes) -> None:
        """Take a message to be sent; it is kept until the stream is dropped."""
        self.last += 1
        self._store.add(self.id, self.last, message)
        self._notify()

    def finish(self) -> None:
        """Nothing comes any more: the connection ends when all is sent."""
        self.finished = True
        self._notify()

    def part(self) -> None:
        """End the connection, not the stream: the client is to come back for the rest."""
        self._parted = self._attached is not None or self._wake is None  # Before the first one, that one is meant.
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

    async def drained(self) -> None:
        """Wait while the connection that is attached is far behind."""
        while self._is_full():
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def _is_full(self) -> bool:
        return self._attached is not None and self.last - self._delivered > _FULL

    def attach(self) -> object:
        """Take the stream over for a connection; whatever was attached before is let go."""
        self._attached = token = object()
        self._notify()
        self._wake = asyncio.Event()
        return token

    def release(self, token: object) -> None:
        """A connection is gone; what comes now waits for another."""
        if self._attached is token:
            self._attached = None
            self._make_room()
            self._notify()

    async def pump(
        self,
        token: object,
        write: Write,
        after: int | None = None,
        primed: bool = False,
        silence: float = KEEP_ALIVE,
    ) -> None:
        """Send over an attached connection all that comes after this number, or after what was sent last, until the
        stream is finished, the connection is released, or `part` is called. `primed` begins with an empty event,
        which tells where to resume; after so many seconds of `silence` a comment is sent."""
        cursor = self._delivered if after is None else min(after, self.last)
        wake = self._wake
        if primed:
            await write(encode(b"", id=f"{self.id}-{cursor}", retry=RETRY))
        while wake is not None and self._attached is token:
            wake.clear()
            for number, message in self._store.after(self.id, cursor):
                if number > cursor + 1:
                    log.warning("%d messages of a stream were not kept for a client that was away", number - cursor - 1)
                await write(encode(message, id=f"{self.id}-{number}" if self._resumable else ""))
                if self._attached is not token:
                    return
                cursor = self._delivered = number
                self._make_room()
            if self.finished or self._parted:
                break
            if not wake.is_set():
                await self._wait(wake, write, silence)
        if self._parted and not self.finished and self._attached is token:
            await write(b"retry: %d\n\n" % RETRY)
            self._parted = False
        self.release(token)

    async def _wait(self, wake: asyncio.Event, write: Write, silence: float) -> None:
        try:
            async with asyncio.timeout(silence):
                await wake.wait()
        except TimeoutError:
            await write(COMMENT)

    def _make_room(self) -> None:
        if self._room is not None and not self._is_full():
            self._room.set()
            self._room = None

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
