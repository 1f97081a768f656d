"""The changes that servers announce, in one stream of the store: all workers read it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Final, Protocol

from pydantic_core import from_json, to_json

from mcp_runtime.stores import STREAM_LIMIT, StoreUnavailableError

from .mail import Outbox
from .state import ServerSharing
from .worker import Worker

_log: Final = logging.getLogger("mcp_runtime.workers.sessions.changes")

_TTL: Final = 30 * 86_400.0  # Seconds for which changes are stored after the last one.
_KEPT_SECONDS: Final = 60.0  # Seconds for which a change is announced again if the store loses it.
_KNOWN: Final = 2 * STREAM_LIMIT  # Changes that are known again.

EVERYTHING: Final = ""  # Instead of a method: after a loss of the store, any change may have been missed.

Change = tuple[int, str, Any]  # Its number, the method of the notification, and its params.


class ChangeReader(Protocol):
    """A session with a connection for changes."""

    def put_change(self, change: Change) -> None:
        """Send a change to the client, if it wants it."""

    def begin_before(self, number: int) -> None:
        """Let a change have a lower number than those before: the time of the store has gone back."""


class ChangeLog:
    """The changes of one server, as this worker has read them."""

    def __init__(self, worker: Worker, sharing: ServerSharing) -> None:
        self._worker = worker
        self._sharing = sharing
        self._readers: dict[ChangeReader, None] = {}
        self._reading = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None  # A call of `read` that has not begun to read.
        self._delivers = self._has_begun = False
        self._announced = Outbox(worker.store)
        self._known: dict[str, int] = {}  # The first numbers of the changes that were read last, by their tokens.
        self._highest = 0  # The number of the last change that was delivered.
        self.last = 0
        worker.on("gap", lambda _: self._on_hint(self.last + 1))
        worker.on("change", lambda fields: self._on_hint(fields["number"]))
        worker.on_loss(self._restore)

    async def open(self) -> None:
        """Begin after the last change of the store, and pass announcements of the server to all workers."""
        if not self._has_begun:
            for change, token in await self._after(0):  # They are known, should the time of the store go back.
                self.last = self._highest = change[0]
                self._know(token, change[0])
        self._has_begun = True
        self.relay()

    def relay(self) -> None:
        """Pass announcements of the server to all workers, also if this one has not reached the store yet."""
        self._delivers = self._sharing.relay(self.announce) or self._delivers

    async def announce(self, method: str, params: Any) -> None:
        """Store a change, and deliver it here and at the other workers."""
        worker, token = self._worker, self._worker.new_token()
        entry, key, after = to_json([method, params, token]), worker.key("changes"), max(self.last, self._highest)
        number = await worker.retry(lambda: self._announced.append(key, entry, _TTL, token, after))
        self._announced.forget(_KEPT_SECONDS)
        try:
            await worker.broadcast("change", number=number)
            if self._has_begun:
                await self.read()
        except StoreUnavailableError as error:
            _log.warning("a change is stored, and is read later: %s", error)

    async def _restore(self) -> None:
        """Announce again what the store has lost, and read what others have announced since."""
        await self._announced.append_again()
        await self._announce_everything()
        await self._worker.broadcast("change", number=self.last + 1)
        async with self._reading:  # A worker that had not noticed the loss may have given a number of one that is lost.
            for change, token in await self._after(0):
                if change[0] <= self.last and self._know(token, change[0]):
                    await self._deliver(change)
        await self.look()

    async def _announce_everything(self) -> None:
        """Let all clients be told what they may have missed: changes of the past that a worker has announced which does
        not run any more, or that their streams had not sent. All workers do so once for each loss, with one token."""
        worker, token = self._worker, f"lost {self._worker.epoch}"
        if token not in self._known:
            entry, after = to_json([EVERYTHING, None, token]), max(self.last, self._highest)
            await worker.store.append(worker.key("changes"), [entry], _TTL, after, token)

    async def look(self) -> None:
        """Deliver the changes that are new, also if the time of the store has gone back."""
        key = self._worker.key("changes")
        async with self._reading:
            if await self._worker.store.last(key) < self.last:
                self.last = 0
        await self.read()

    async def read(self) -> None:
        """Deliver the changes that are new. Calls that come before a former one has begun to read share it: very many
        streams may open at the same time."""
        if self._next is None or self._next.done():  # It is done if it has been cancelled.
            self._next = asyncio.get_running_loop().create_task(self._read(), context=Context())
        await asyncio.shield(self._next)

    async def _read(self) -> None:
        async with self._reading:
            self._next = None
            for change, token in await self._after(self.last):
                self.last = change[0]
                if self._know(token, change[0]) or change[1] == EVERYTHING:  # Clients may be further than the first.
                    await self._deliver(change)

    async def _deliver(self, change: Change) -> None:
        is_behind = change[0] <= self._highest
        self._highest = change[0]
        for reader in list(self._readers):
            if is_behind:
                reader.begin_before(change[0])
            reader.put_change(change)
        if self._delivers and change[1] == EVERYTHING:
            await self._sharing.deliver_missed()
        elif self._delivers:
            await self._sharing.deliver(change[1], change[2])

    def _know(self, token: str, number: int) -> bool:
        """Remember a change. Return False if it is known."""
        if token in self._known:
            return False
        self._known[token] = number
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return True

    async def after(self, work: Callable[[], Awaitable[object]]) -> None:
        """Deliver what comes from now on after some work: the state that says who wants it."""
        async with self._reading:
            await work()

    async def attach(self, reader: ChangeReader, after: int) -> None:
        """Deliver the changes after a number to a reader, and those that follow until `detach`."""
        if after < self.last:
            async with self._reading:
                tokens: set[str] = set()
                for change, token in await self._after(after):
                    if change[0] > self.last:
                        break
                    if token in tokens:
                        continue
                    tokens.add(token)
                    first = change[0] if change[1] == EVERYTHING else self._known.get(token, change[0])
                    if first > after:  # Otherwise it was announced again after a loss.
                        reader.put_change(change)
                self._readers[reader] = None
        else:
            self._readers[reader] = None
        await self.read()
        if after > self.last:  # The store has lost what the client has got.
            reader.begin_before(self.last + 1)

    def has_reader(self, reader: ChangeReader) -> bool:
        """Return True if changes are delivered to a reader."""
        return reader in self._readers

    def detach(self, reader: ChangeReader) -> None:
        """Deliver no changes any more."""
        self._readers.pop(reader, None)

    async def _after(self, number: int) -> list[tuple[Change, str]]:
        """Return the changes after a number, and their tokens."""
        entries = await self._worker.store.read(self._worker.key("changes"), number)
        read = [(at, from_json(entry)) for at, entry in entries]
        return [((at, method, params), token) for at, (method, params, token) in read]

    def _on_hint(self, number: int) -> None:
        if number > self.last or self._reading.locked():
            self._worker.spawn(self.read())
