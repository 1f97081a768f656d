"""Storage for the messages of SSE streams, from which a stream is resumed with `Last-Event-ID`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

_MAX_MESSAGES: Final = 1024
_MAX_STREAM_BYTES: Final = 16 * 1024 * 1024
_MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024

NumberedMessage = tuple[int, bytes]


class EventStore(Protocol):
    """Storage for the messages of SSE streams. The methods are called in the event loop, so they must not block."""

    def add(self, stream: str, number: int, message: bytes) -> None:
        """Store a message.

        Args:
            stream: Id of the stream, which cannot be guessed.
            number: Number of the message in its stream; numbers begin with 1 and have no gaps.
            message: The encoded JSON-RPC message.
        """
        ...

    def after(self, stream: str, number: int) -> Sequence[NumberedMessage]:
        """Return numbers and messages of a stream that follow this number, in order; empty for an unknown stream."""
        ...

    def drop(self, stream: str) -> None:
        """Delete all messages of a stream, if there are any."""
        ...


class InMemoryEventStore:
    """An event store in memory. If it is full, it deletes the oldest messages of the least recently used stream."""

    __slots__ = ("_max_messages", "_max_stream_bytes", "_max_total_bytes", "_size", "_streams")

    def __init__(
        self,
        max_messages: int = _MAX_MESSAGES,
        max_stream_bytes: int = _MAX_STREAM_BYTES,
        max_total_bytes: int = _MAX_TOTAL_BYTES,
    ) -> None:
        """Create an empty store.

        Args:
            max_messages: Messages that are stored of one stream. Default 1024.
            max_stream_bytes: Bytes that are stored of one stream; its last message is always stored. Default 16 MiB.
            max_total_bytes: Bytes that are stored of all streams. Default 256 MiB.
        """
        self._max_messages = max_messages
        self._max_stream_bytes = max_stream_bytes
        self._max_total_bytes = max_total_bytes
        self._size = 0
        self._streams: dict[str, _StoredStream] = {}  # The least recently used stream is the first.

    def add(self, stream: str, number: int, message: bytes) -> None:
        """Store a message, and delete older ones to make room."""
        stored = self._streams.pop(stream, None) or _StoredStream(number)
        self._streams[stream] = stored
        stored.messages.append(message)
        stored.size += len(message)
        self._size += len(message)
        while len(stored.messages) > 1 and (
            len(stored.messages) > self._max_messages or stored.size > self._max_stream_bytes
        ):
            self._drop_first(stored)
        while self._size > self._max_total_bytes and self._size > len(message):
            oldest_id, oldest = next(iter(self._streams.items()))
            self._drop_first(oldest)
            if not oldest.messages:
                del self._streams[oldest_id]

    def _drop_first(self, stored: _StoredStream) -> None:
        size = len(stored.messages.pop(0))
        stored.size -= size
        self._size -= size
        stored.first += 1

    def after(self, stream: str, number: int) -> Sequence[NumberedMessage]:
        """Return the stored messages of a stream that follow this number, in order."""
        stored = self._streams.get(stream)
        if stored is None:
            return ()
        begin = max(stored.first, number + 1)
        return list(enumerate(stored.messages[begin - stored.first :], begin))

    def drop(self, stream: str) -> None:
        """Delete all messages of a stream."""
        stored = self._streams.pop(stream, None)
        self._size -= 0 if stored is None else stored.size
        if not self._streams:
            self._streams.clear()  # Frees the memory of the table.


class _StoredStream:
    """The messages of one stream and their size in bytes; `first` is the number of the first one."""

    __slots__ = ("first", "messages", "size")

    def __init__(self, first: int) -> None:
        self.first = first
        self.messages: list[bytes] = []
        self.size = 0
