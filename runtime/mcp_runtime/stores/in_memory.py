"""A store in the memory of one process: for applications that share it in one event loop, and for tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from .primitives import ANYTHING, STREAM_LIMIT, Expected, NumberedEntry, ReceiveHint

_SWEEP: Final = 1024  # Changes after which what has expired is deleted.


class InMemoryStore:
    """A store for several applications of one event loop. It ends with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty store; `clock` returns the current time in seconds."""
        self._clock = clock
        self._records: dict[str, tuple[bytes, float]] = {}  # Values, and the times at which they expire.
        self._counters: dict[str, tuple[int, float]] = {}
        # The number of the last entry comes first, then the entries with their tokens.
        self._streams: dict[str, tuple[int, list[tuple[bytes, str]], float]] = {}
        self._receivers: dict[str, list[ReceiveHint]] = {}
        self._changes = 0

    async def get(self, key: str) -> bytes | None:
        """Return the value of a record."""
        value, expires = self._records.get(key, (None, 0.0))
        return value if expires > self._clock() else None

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        """Store a record if its value is the expected one."""
        if expected is not ANYTHING and await self.get(key) != expected:
            return False
        self._sweep()
        self._records[key] = (value, self._clock() + ttl)
        return True

    async def touch(self, key: str, ttl: float) -> bytes | None:
        """Let the time to live of a record begin anew; return its value."""
        value = await self.get(key)
        if value is not None:
            self._records[key] = (value, self._clock() + ttl)
        return value

    async def delete(self, key: str) -> bool:
        """Delete a record."""
        is_stored = await self.get(key) is not None
        self._records.pop(key, None)
        return is_stored

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter."""
        self._sweep()
        value, expires = self._counters.get(key, (0, 0.0))
        if expires <= self._clock():
            value, expires = 0, self._clock() + ttl
        self._counters[key] = (value + amount, expires)
        return value + amount

    async def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> int:
        """Append entries to a stream."""
        self._sweep()
        last, stored, _ = self._live_stream(stream)
        if token:
            numbers = range(last - len(stored) + 1, last + 1)
            same = [number for number, entry in zip(numbers, stored, strict=True) if entry[1] == token]
            if same and same[-1] > (after or 0):
                return same[-1]
        elif after is not None and last < after:
            last, stored = after, []  # The stream has expired meanwhile.
        new = entries if after is None or token else entries[last - after :]
        last, stored = last + len(new), [*stored, *((entry, token) for entry in new)][-STREAM_LIMIT:]
        self._streams[stream] = (last, stored, self._clock() + ttl)
        return last

    async def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> list[NumberedEntry]:
        """Return the stored entries of a stream that follow a number."""
        last, stored, _ = self._live_stream(stream)
        first = last - len(stored) + 1
        bodies = [body for body, _ in stored]
        return list(enumerate(bodies, first))[max(after + 1 - first, 0) :][:limit]

    async def last(self, stream: str) -> int:
        """Return the number of the last entry of a stream."""
        return self._live_stream(stream)[0]

    async def drop(self, *streams: str) -> None:
        """Delete streams."""
        for stream in streams:
            self._streams.pop(stream, None)

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the subscribers of a channel, in the next iteration of the event loop."""
        loop = asyncio.get_running_loop()
        for receive in self._receivers.get(channel, ()):
            loop.call_soon(receive, message)

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel."""
        receivers = self._receivers.setdefault(channel, [])
        if receive not in receivers:
            receivers.append(receive)

    async def close(self) -> None:
        """Do nothing: other applications may still use the store."""

    def _live_stream(self, stream: str) -> tuple[int, list[tuple[bytes, str]], float]:
        item = self._streams.get(stream)
        return (0, [], 0.0) if item is None or item[2] <= self._clock() else item

    def _sweep(self) -> None:
        """Delete what has expired, once in many changes."""
        self._changes += 1
        if self._changes < _SWEEP:
            return
        self._changes, now = 0, self._clock()
        self._records = {key: item for key, item in self._records.items() if item[1] > now}
        self._counters = {key: item for key, item in self._counters.items() if item[1] > now}
        self._streams = {key: item for key, item in self._streams.items() if item[2] > now}
