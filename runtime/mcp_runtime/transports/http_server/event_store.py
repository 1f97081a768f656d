"""What was sent on a stream goes in, and what came after one of its events comes out, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

_MAX_MESSAGES: Final = 1024  # Messages of one stream that are kept.
_MAX_STREAM_BYTES: Final = 16 * 1024 * 1024  # Bytes of one stream that are kept; the last message is kept in any case.
_MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024  # Bytes of all streams that are kept.

NumberedMessage = tuple[int, bytes]


class EventStore(Protocol):
    """Where the messages of streams are kept until they are not needed any more.

    Streams have unguessable names; numbers grow by one from 1. A store of one's own may write elsewhere what it
    takes, but answers at once.
    """

    def add(self, stream: str, number: int, message: bytes) -> None:
        """Keep a message of a stream."""
        ...

    def after(self, stream: str, number: int) -> Sequence[NumberedMessage]:
        """What is kept of a stream after this number, in order."""
        ...

    def drop(self, stream: str) -> None:
        """Forget a stream, and do nothing where it is unknown."""
        ...


class InMemoryEventStore:
    """Keeps the latest messages of each stream in memory: at most so many, of so many bytes, and of all streams so many
    bytes as a whole; what is too much is taken from the stream that has been silent for longest."""

    __slots__ = ("_max_messages", "_max_stream_bytes", "_max_total_bytes", "_size", "_streams")

    def __init__(
        self,
        max_messages: int = _MAX_MESSAGES,
        max_stream_bytes: int = _MAX_STREAM_BYTES,
        max_total_bytes: int = _MAX_TOTAL_BYTES,
    ) -> None:
        self._max_messages, self._max_stream_bytes, self._max_total_bytes = (
            max_messages,
            max_stream_bytes,
            max_total_bytes,
        )
        self._size = 0
        self._streams: dict[str, _StoredStream] = {}  # In the order in which something was last added.

    def add(self, stream: str, number: int, message: bytes) -> None:
        kept = self._streams.pop(stream, None) or _StoredStream(number)
        self._streams[stream] = kept
        kept.messages.append(message)
        kept.size += len(message)
        self._size += len(message)
        while len(kept.messages) > 1 and (
            len(kept.messages) > self._max_messages or kept.size > self._max_stream_bytes
        ):
            self._drop_first(kept)
        while self._size > self._max_total_bytes and self._size > len(message):
            silent, oldest = next(iter(self._streams.items()))
            self._drop_first(oldest)
            if not oldest.messages:
                del self._streams[silent]

    def _drop_first(self, kept: _StoredStream) -> None:
        size = len(kept.messages.pop(0))
        kept.size -= size
        self._size -= size
        kept.first += 1

    def after(self, stream: str, number: int) -> Sequence[NumberedMessage]:
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


class _StoredStream:
    """The messages of one stream, with their size in bytes. Numbers have no gaps, so that of the first tells all."""

    __slots__ = ("first", "messages", "size")

    def __init__(self, first: int) -> None:
        self.first = first
        self.messages: list[bytes] = []
        self.size = 0
