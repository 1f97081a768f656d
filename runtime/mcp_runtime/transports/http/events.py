"""What was sent on a stream goes in, and what came after one of its events comes out, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

_MOST: Final = 1024  # Messages of one stream that are kept.
_LARGEST: Final = 16 * 1024 * 1024  # Bytes of one stream that are kept; the last message is kept in any case.

Numbered = tuple[int, bytes]


class EventStore(Protocol):
    """Where the messages of streams are kept until they are not needed any more.

    Streams have unguessable names; numbers grow by one from 1. A store of one's own may write elsewhere what it
    takes, but answers at once.
    """

    def add(self, stream: str, number: int, message: bytes) -> None:
        """Keep a message of a stream."""
        ...

    def after(self, stream: str, number: int) -> Sequence[Numbered]:
        """What is kept of a stream after this number, in order."""
        ...

    def drop(self, stream: str) -> None:
        """Forget a stream, and do nothing where it is unknown."""
        ...


class MemoryEvents:
    """Keeps the latest messages of each stream in memory."""

    __slots__ = ("_most", "_largest", "_streams")

    def __init__(self, most: int = _MOST, largest: int = _LARGEST) -> None:
        self._most = most
        self._largest = largest
        self._streams: dict[str, _Kept] = {}

    def add(self, stream: str, number: int, message: bytes) -> None:
        kept = self._streams.get(stream)
        if kept is None:
            kept = self._streams[stream] = _Kept()
        kept.messages.append((number, message))
        kept.size += len(message)
        while len(kept.messages) > 1 and (len(kept.messages) > self._most or kept.size > self._largest):
            kept.size -= len(kept.messages.pop(0)[1])

    def after(self, stream: str, number: int) -> Sequence[Numbered]:
        kept = self._streams.get(stream)
        if kept is None or not kept.messages:
            return ()
        first = kept.messages[0][0]
        if number < first:
            return list(kept.messages)
        # Numbers have no gaps, so the place of each is known, and reading on costs what is read.
        return [kept.messages[at] for at in range(number - first + 1, len(kept.messages))]

    def drop(self, stream: str) -> None:
        self._streams.pop(stream, None)
        if not self._streams:
            self._streams.clear()  # Gives back what it had grown to.


class _Kept:
    """The messages of one stream, with their size in bytes."""

    __slots__ = ("messages", "size")

    def __init__(self) -> None:
        self.messages: list[Numbered] = []
        self.size = 0
