"""A store in the memory of one process: for applications that share it in one event loop, and for tests."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from mcp_runtime.aio import clock as clocks
from mcp_runtime.stores import ANYTHING, STREAM_LIMIT, Expected, NumberedEntry, ReceiveHint, number_at

_SWEEP: Final = 1024  # Changes after which what has expired is deleted.


@dataclass(slots=True)
class _Stream:
    """The number of the last entry, the entries with their numbers and tokens, and the time at which it expires."""

    last: int
    entries: list[tuple[int, bytes, str]]
    expires: float


class InMemoryStore:
    """A store for several applications of one event loop. It ends with the process."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """Create an empty store; `clock` returns the current time in seconds, by default a monotonic one."""
        self._clock = clock or (lambda: clocks.monotonic())  # A test may set the clock later.
        self._records: dict[str, tuple[bytes, float]] = {}  # Values, and the times at which they expire.
        self._counters: dict[str, tuple[int, float]] = {}
        self._streams: dict[str, _Stream] = {}
        self._receivers: dict[str, list[ReceiveHint]] = {}
        self._changes = 0
        self._highest = 0  # The highest number of a stream with several writers.

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
        found = self._live_stream(stream)
        if found is None and not entries:
            return after or 0
        expires = self._clock() + ttl
        kept = self._streams[stream] = _Stream(0, [], expires) if found is None else found
        kept.expires = expires
        if after is not None and not token:
            entries, number = entries[max(kept.last - after, 0) :], max(kept.last, after)
        elif (same := [entry[0] for entry in kept.entries if token and entry[2] == token]) and same[-1] > (after or 0):
            return same[-1]
        else:
            number = max(kept.last, self._highest, after or 0, number_at(clocks.wall()) - len(entries))
            self._highest = number + len(entries)
        kept.entries += [(at, entry, token) for at, entry in enumerate(entries, number + 1)]
        del kept.entries[:-STREAM_LIMIT]
        kept.last = number + len(entries) if entries else kept.last
        return kept.last

    async def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> list[NumberedEntry]:
        """Return the stored entries of a stream that follow a number."""
        found = self._live_stream(stream)
        if found is None or found.last <= after:
            return []
        first = bisect_right(found.entries, after, key=itemgetter(0))
        return [(number, body) for number, body, _ in found.entries[first : first + limit]]

    async def last(self, stream: str) -> int:
        """Return the number of the last entry of a stream."""
        found = self._live_stream(stream)
        return 0 if found is None else found.last

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

    def _live_stream(self, stream: str) -> _Stream | None:
        found = self._streams.get(stream)
        return None if found is None or found.expires <= self._clock() else found

    def _sweep(self) -> None:
        """Delete what has expired, once in many changes."""
        self._changes += 1
        if self._changes < _SWEEP:
            return
        self._changes = 0
        now = self._clock()
        self._records = {key: item for key, item in self._records.items() if item[1] > now}
        self._counters = {key: item for key, item in self._counters.items() if item[1] > now}
        self._streams = {name: stream for name, stream in self._streams.items() if stream.expires > now}
