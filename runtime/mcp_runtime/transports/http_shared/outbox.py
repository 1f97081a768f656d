"""What this worker has stored for others lately, and stores again if the store has lost it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ...aio import clock
from ...stores.retrying_store import RetryingStore

_log: Final = logging.getLogger(__name__)

_BYTES: Final = 16 << 20  # Bytes that are kept; the oldest messages make room.


@dataclass(slots=True)
class _Sent:
    """A message, the stream that it is in, and its number there."""

    stream: str
    message: bytes
    ttl: float
    sent_at: float
    number: int = 0


class Outbox:
    """Messages that others may not have read yet. A reader tells by the token of a message that it has it already."""

    def __init__(self, store: RetryingStore) -> None:
        """Keep the messages for the streams of a store."""
        self._store = store
        self._sent: dict[str, _Sent] = {}  # By their tokens, in their order.
        self._size = 0

    async def append(self, stream: str, message: bytes, ttl: float, token: str, after: int | None = None) -> int:
        """Append a message to a stream; return its number. Raises StoreUnavailableError."""
        self._sent[token] = sent = _Sent(stream, message, ttl, clock.monotonic())
        self._size += len(message)
        while self._size > _BYTES and len(self._sent) > 1:
            self._remove(next(iter(self._sent)))
        try:
            sent.number = await self._store.append(stream, [message], ttl, after, token)
        except BaseException:
            self._remove(token)  # The sender knows.
            raise
        return sent.number

    async def append_again(self, seconds: float = 0.0, streams: Collection[str] | None = None) -> None:
        """Append those messages again that the store does not have any more: of these streams or of all, and as old as
        that. Raises StoreUnavailableError."""
        old = clock.monotonic() - seconds
        for token, sent in list(self._sent.items()):
            if sent.number and sent.sent_at <= old and (streams is None or sent.stream in streams):
                sent.number = await self._store.append(sent.stream, [sent.message], sent.ttl, None, token)

    def streams(self) -> set[str]:
        """Return the streams with messages that nobody has settled."""
        return {sent.stream for sent in self._sent.values()}

    def settle(self, stream: str, number: int) -> None:
        """Forget the messages of a stream up to a number: they were read."""
        for token, sent in list(self._sent.items()):
            if sent.stream == stream and 0 < sent.number <= number:
                self._remove(token)

    def forget(self, seconds: float, stream: str | None = None) -> int:
        """Forget what is older, of one stream or of all; return how many messages that were."""
        old = clock.monotonic() - seconds
        items = [item for item in self._sent.items() if stream is None or item[1].stream == stream]
        tokens = [token for token, sent in items if sent.sent_at < old]
        for token in tokens:
            self._remove(token)
        return len(tokens)

    def _remove(self, token: str) -> None:
        sent = self._sent.pop(token, None)
        if sent is not None:
            self._size -= len(sent.message)
