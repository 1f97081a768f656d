"""A cache with limits on entries, on bytes and on the age of an entry."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from math import inf
from typing import Generic, TypeVar

from mcp_runtime.aio import clock as clocks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Entry(Generic[V]):
    """A value, the time when it expires, and its size."""

    __slots__ = ("value", "expires", "size")

    def __init__(self, value: V, expires: float, size: int) -> None:
        self.value = value
        self.expires = expires
        self.size = size


class BoundedCache(Generic[K, V]):
    """A mapping that evicts the least recently used entries when it is full, and drops entries that have expired.

    Not safe for use from several threads at once.
    """

    def __init__(
        self,
        max_entries: int,
        *,
        ttl: float | None = None,
        max_bytes: int | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create an empty cache.

        Args:
            max_entries: Number of entries that are stored at most.
            ttl: Seconds for which an entry is valid. Default None: entries do not expire.
            max_bytes: Sum of the sizes passed to `put` that is stored at most. Default None: no limit.
            clock: Returns the current time in seconds, by default a monotonic one.
        """
        self._max_entries = max_entries
        self._ttl = inf if ttl is None else ttl
        self._max_bytes = inf if max_bytes is None else max_bytes
        self._clock = clocks.monotonic if clock is None else clock
        self._bytes = 0
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None if there is no valid entry. Wrap values that may be None themselves."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires <= self._clock():
            self.remove(key)
            return None
        self._entries.move_to_end(key)
        return entry.value

    def put(self, key: K, value: V, *, ttl: float | None = None, size: int = 0) -> None:
        """Store a value, and evict older entries to make room; a value larger than the whole cache is not stored.

        `ttl` (seconds) may shorten the lifetime of this entry; `size` is its number of bytes.
        """
        self.remove(key)
        if size > self._max_bytes:
            return
        lifetime = self._ttl if ttl is None else min(ttl, self._ttl)
        self._entries[key] = _Entry(value, self._clock() + lifetime, size)
        self._bytes += size
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self.remove(next(iter(self._entries)))

    def remove(self, key: K) -> None:
        """Remove an entry, if there is one."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size

    def items(self) -> Iterator[tuple[K, V]]:
        """Return keys and values of a snapshot, so that entries may be removed while iterating."""
        return iter([(key, entry.value) for key, entry in self._entries.items()])

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._bytes = 0
