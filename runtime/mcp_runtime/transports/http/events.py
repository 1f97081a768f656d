"""What was sent on a stream goes in, and what came after one of its events comes out, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

_MOST: Final = 1024  # Messages of one stream that are kept.
_LARGEST: Final = 16 * 1024 * 1024  # Bytes of one stream that are kept; the last message is kept in any case.
_WHOLE: Final = 256 * 1024 * 1024  # Bytes of all streams that are kept.

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
    """Keeps the latest messages of each stream in memory: at most so many, of so many bytes, and of all streams so many
    bytes as a whole; what is too much is taken from the stream that has been silent for longest."""

    __slots__ = ("_most", "_largest", "_whole", "_size", "_streams")

    def __init__(self, most: int = _MOST, largest: int = _LARGEST, whole: int = _WHOLE) -> None:
        self._most, self._largest, self._whole = most, largest, whole
        self._size = 0
        self._streams: dict[str, _Kept] = {}  # In the order in which something was last added.

    def add(self, stream: str, number: int, message: bytes) -> None:
        kept = self._streams.pop(stream, None) or _Kept(number)
        self._streams[stream] = kept
        kept.messages.append(message)
        kept.size += len(message)
        self._size += len(message)
        while len(kept.messages) > 1 and (len(kept.messages) > self._most or kept.size > self._largest):
            self._lose_first(kept)
        while self._size > self._whole and self._size > len(message):
            silent, oldest = next(iter(self._streams.items()))
            self._lose_first(oldest)
            if not oldest.messages:
                del self._streams[silent]

    def _lose_first(self, kept: _Kept) -> None:
        size = len(kept.messages.pop(0))
        kept.size -= size
        self._size -= size
        kept.first += 1

    def after(self, stream: str, number: int) -> Sequence[Numbered]:
        kept = self._streams.get(stream)
        if kept is None:
            return ()
        begin = max(kept.first, number + 1)
        return list(enumerate(kept.messages[begin - kept.first :], begin))

    def drop(self, stream: str) -> None:
        kept = self._streams.pop(stream, None)
        self._size -= 0 if kept is None else kept.size
        if not self._streams:
            self._streams.clear()  # Gives back what it had grown to.


class _Kept:
    """The messages of one stream, with their size in bytes. Numbers have no gaps, so that of the first tells all."""

    __slots__ = ("first", "messages", "size")

    def __init__(self, first: int) -> None:
        self.first = first
        self.messages: list[bytes] = []
        self.size = 0
