"""The changes that servers announce, in one stream of the store: all workers read it."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from typing import Any, Final, Protocol

from pydantic_core import from_json, to_json

from ...session.interfaces import SessionSharing
from ...stores.primitives import StoreUnavailableError
from .worker import Worker

_log: Final = logging.getLogger(__name__)

_TTL: Final = 30 * 86_400.0  # Seconds for which changes are stored after the last one.

Change = tuple[int, str, Any]  # Its number, the method of the notification, and its params.


class ChangeReader(Protocol):
    """A session with a connection for changes."""

    def put_change(self, change: Change) -> None:
        """Send a change to the client, if it wants it."""
        ...


class ChangeLog:
    """The changes of one server, as this worker has read them."""

    def __init__(self, worker: Worker, sharing: SessionSharing) -> None:
        self._worker, self._sharing = worker, sharing
        self._readers: dict[ChangeReader, None] = {}
        self._reading = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None  # A call of `read` that has not begun to read.
        self._delivers = False
        self.last = 0
        worker.on("gap", lambda _: self._on_hint(self.last + 1))
        worker.on("change", lambda fields: self._on_hint(fields["number"]))

    async def open(self) -> None:
        """Begin after the last change of the store, and pass announcements of the server to all workers."""
        self.last = await self._worker.store.last(self._worker.key("changes"))
        self._delivers = self._sharing.relay(self.announce) or self._delivers

    async def announce(self, method: str, params: Any) -> None:
        """Store a change, and deliver it here and at the other workers."""
        entry, token, worker = to_json([method, params]), self._worker.new_token(), self._worker
        key, after = worker.key("changes"), self.last
        number = await worker.retry(lambda: worker.store.append(key, [entry], _TTL, after, token))
        try:
            await worker.broadcast("change", number=number)
            await self.read()
        except StoreUnavailableError as error:
            _log.warning("a change is stored, and is read later: %s", error)

    async def read(self) -> None:
        """Deliver the changes that are new. Calls that come before a former one has begun to read share it: very many
        streams may open at the same time."""
        if self._next is None or self._next.done():  # It is done if it has been cancelled.
            self._next = asyncio.get_running_loop().create_task(self._read(), context=Context())
        await asyncio.shield(self._next)

    async def _read(self) -> None:
        async with self._reading:
            self._next = None
            for change in await self._after(self.last):
                self.last = change[0]
                for reader in list(self._readers):
                    reader.put_change(change)
                if self._delivers:
                    await self._sharing.deliver(change[1], change[2])

    async def attach(self, reader: ChangeReader, after: int) -> None:
        """Deliver the changes after a number to a reader, and those that follow until `detach`."""
        if after < self.last:
            async with self._reading:
                for change in await self._after(after):
                    if change[0] > self.last:
                        break
                    reader.put_change(change)
                self._readers[reader] = None
        else:
            self._readers[reader] = None
        await self.read()

    def has_reader(self, reader: ChangeReader) -> bool:
        """Return True if changes are delivered to a reader."""
        return reader in self._readers

    def detach(self, reader: ChangeReader) -> None:
        """Deliver no changes any more."""
        self._readers.pop(reader, None)

    async def _after(self, number: int) -> list[Change]:
        entries = await self._worker.store.read(self._worker.key("changes"), number)
        return [(at, *from_json(entry)) for at, entry in entries]

    def _on_hint(self, number: int) -> None:
        if number <= self.last and not self._reading.locked():
            return
        self._worker.spawn(self.read())
