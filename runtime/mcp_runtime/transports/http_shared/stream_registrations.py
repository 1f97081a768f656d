"""What another worker has to know of a stream: the scopes that its reader needs, and the requests that it answers.

Most streams have it before their first message, in the same entry of the store. It is in a record of its own if the
stream may be resumed before, if its scopes change, and before the first entries of a long stream are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from pydantic_core import from_json, to_json

from ...protocol.jsonrpc import Id
from ...stores.primitives import NumberedEntry
from .worker import Worker

_MARK: Final = b"\x01"  # Begins an entry with a registration. A message begins with a brace or a bracket.
_LINE: Final = b"\n"


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
