"""Storage for the messages of SSE streams, from which a stream is resumed with `Last-Event-ID`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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

    def after(self, stream: str, number: int) -> Sequence[NumberedMessage]:
        """Return numbers and messages of a stream that follow this number, in order; empty for an unknown stream."""
        ...

    def drop(self, stream: str) -> None:
        """Delete all messages of a stream, if there are any."""


class InMemoryEventStore:
    """An event store in memory. If it is full, the user or address that holds most bytes loses the oldest messages of
    its least recently used stream."""

    __slots__ = ("_max_messages", "_max_stream_bytes", "_max_total_bytes", "_size", "_streams", "_holders")

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
        self._streams: dict[str, _StoredStream] = {}
        self._holders: dict[Hashable, _Holder] = {}

    def assign(self, stream: str, holder: Hashable) -> None:
        """Set who holds a new stream; streams without a holder count together."""
        self._streams[stream] = _StoredStream(holder)

    def add(self, stream: str, number: int, message: bytes) -> None:
        """Store a message, and delete older ones to make room."""
        stored = self._streams.get(stream) or self._streams.setdefault(stream, _StoredStream(None))
        holder = self._holders.get(stored.holder) or self._holders.setdefault(stored.holder, _Holder())
        holder.streams.pop(stream, None)
        holder.streams[stream] = stored
        if not stored.messages:
            stored.first = number
        stored.messages.append(message)
        self._count(stored, len(message))
        while len(stored.messages) > 1 and (
            len(stored.messages) > self._max_messages or stored.size > self._max_stream_bytes
        ):
            self._drop_first(stored)
        while self._size > self._max_total_bytes and self._size > len(message):
            self._make_room(holder, len(message))

    def _make_room(self, adding: _Holder, added: int) -> None:
        """Delete a message of the holder that has most, the message that was added last not counted."""
        holder = max(self._holders.values(), key=lambda item: item.size - (added if item is adding else 0))
        id, stored = next(iter(holder.streams.items()))
        self._drop_first(stored)
        if not stored.messages:
            self._remove(id)

    def _drop_first(self, stored: _StoredStream) -> None:
        self._count(stored, -len(stored.messages.pop(0)))
        stored.first += 1

    def _count(self, stored: _StoredStream, size: int) -> None:
        stored.size += size
        self._holders[stored.holder].size += size
        self._size += size

    def after(self, stream: str, number: int) -> Sequence[NumberedMessage]:
        """Return the stored messages of a stream that follow this number, in order."""
        stored = self._streams.get(stream)
        if stored is None or not stored.messages:
            return ()
        begin = max(stored.first, number + 1)
        return list(enumerate(stored.messages[begin - stored.first :], begin))

    def drop(self, stream: str) -> None:
        """Delete all messages of a stream."""
        self._remove(stream)
        if self._streams.pop(stream, None) is not None and not self._streams:
            self._streams.clear()  # Frees the memory of the table.

    def _remove(self, stream: str) -> None:
        """Delete the messages of a stream, but not who holds it."""
        stored = self._streams.get(stream)
        if stored is None or (holder := self._holders.get(stored.holder)) is None:
            return
        self._count(stored, -stored.size)
        stored.messages = []
        holder.streams.pop(stream, None)
        if not holder.streams:
            del self._holders[stored.holder]


class _StoredStream:
    """The messages of one stream and their size in bytes; `first` is the number of the first one."""

    __slots__ = ("first", "holder", "messages", "size")

    def __init__(self, holder: Hashable) -> None:
        self.first = 1
        self.holder = holder
        self.messages: list[bytes] = []
        self.size = 0


class _Holder:
    """The streams of one client that have messages, the least recently used one first, and their size in bytes."""

    __slots__ = ("size", "streams")

    def __init__(self) -> None:
        self.size = 0
        self.streams: dict[str, _StoredStream] = {}
