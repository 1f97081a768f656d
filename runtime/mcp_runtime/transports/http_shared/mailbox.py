"""The mail of a worker: messages of others to it, and those to all workers. Each is stored, and is handled once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import from_json, to_json

from ...stores.retrying_store import RetryingStore
from .life_signs import LifeSigns
from .outbox import Outbox

_log: Final = logging.getLogger(__name__)

MAIL_SECONDS: Final = 600.0  # Seconds for which messages to workers are stored after the last one.
_LATE_SECONDS: Final = 10.0  # Seconds after which a message that its worker has not read is appended again.
_ALL_SECONDS: Final = 60.0  # Seconds for which messages to all workers are kept here: nobody knows who has read them.
_TOKENS: Final = 8192  # Messages that are known again: more than both streams have, which are 2,048.
_TOKEN: Final = "mail"  # The name of the field.


class Mailbox:
    """What one worker gets, and what it has sent."""

    def __init__(
        self, store: RetryingStore, id: str, key: Callable[[str, str], str], receive: Callable[[dict[str, Any]], None]
    ) -> None:
        """Use a store.

        Args:
            store: The store of all workers.
            id: The id of this worker.
            key: Returns the key of a stream from its kind and its name.
            receive: Called with the fields of each message.
        """
        self._store = store
        self._key = key
        self._receive = receive
        self._own = key("mail", id)
        self._all = key("mail", "")
        self._last = {self._own: 0, self._all: 0}  # The numbers of the last messages that were read.
        self._reading = asyncio.Lock()
        self._tokens: dict[str, None] = {}  # Those of the messages that were read last.
        self.sent = Outbox(store)

    @property
    def read_number(self) -> int:
        """The number up to which the messages to this worker alone were read."""
        return self._last[self._own]

    async def open(self) -> None:
        """Begin after the last message to all workers."""
        self._last[self._all] = self._last[self._all] or await self._store.last(self._all)

    async def send(self, worker: str, token: str, kind: str, fields: dict[str, Any]) -> None:
        """Store a message for a worker, or for all others if its id is empty. Raises StoreUnavailableError."""
        message = to_json({"kind": kind, _TOKEN: token, **fields})
        if not worker:
            self._know(token)
        await self.sent.append(self._key("mail", worker), message, MAIL_SECONDS, token)

    async def read(self) -> None:
        """Handle the messages that are new. Raises StoreUnavailableError."""
        async with self._reading:
            for stream in self._last:
                await self._read_stream(stream)

    async def _read_stream(self, stream: str) -> None:
        last = self._last[stream]
        entries = await self._store.read(stream, last)
        if not entries and last and await self._store.last(stream) < last:
            # It has expired or was lost, and the time of the store may have gone back since.
            self._last[stream] = 0
            entries = await self._store.read(stream, 0)
        for number, message in entries:
            self._last[stream] = number
            fields = from_json(message)
            if self._know(fields.pop(_TOKEN)):
                self._receive(fields)

    def _know(self, token: str) -> bool:
        """Remember a message. Return False if it is known."""
        if token in self._tokens:
            return False
        self._tokens[token] = None
        if len(self._tokens) > _TOKENS:
            del self._tokens[next(iter(self._tokens))]
        return True

    async def settle(self, life: LifeSigns, look: Callable[[], Any]) -> None:
        """Forget what was read, and append again what was not, though its worker lives.

        `look` looks whether the store has lost its past: then no message counts as read because a later one was.
        Raises StoreUnavailableError.
        """
        read = {stream: await life.read_by(self._worker_of(stream)) for stream in self.sent.streams() - {self._all}}
        if read and await look():
            return
        late: list[str] = []
        for stream, number in read.items():
            if number is not None:
                self.sent.settle(stream, number)
                late.append(stream)
            elif lost := self.sent.forget(MAIL_SECONDS, stream):
                _log.warning("%d messages to a worker that has ended were not read", lost)
        await self.sent.append_again(_LATE_SECONDS, late)
        self.sent.forget(_ALL_SECONDS, self._all)

    def _worker_of(self, stream: str) -> str:
        return stream.removeprefix(self._all)
