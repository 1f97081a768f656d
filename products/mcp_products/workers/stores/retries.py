"""A store that repeats commands which have failed because the store could not be reached for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable
from weakref import WeakValueDictionary

from mcp_runtime.aio import clock
from mcp_runtime.aio.rates import RateLimit
from mcp_runtime.stores import (
    ANYTHING,
    STREAM_LIMIT,
    Expected,
    NumberedEntry,
    ReceiveHint,
    Store,
    StoreClosedError,
    StoreUnavailableError,
)

_DELAYS: Final = (0.02, 0.05, 0.1, 0.2, 0.4)  # Seconds between attempts; the last one goes on.
_ResultT = TypeVar("_ResultT")
_LATE_SECONDS: Final = 60.0  # Further seconds for which a rate is stored: the clocks of machines differ.
_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


@runtime_checkable
class TrackingStore(Store, Protocol):
    """A store that learns which records other processes change, so that a record need not be read again."""

    def tracked(self, key: str) -> bytes | None:
        """Return the value of a record if this process knows it; None if it does not, or if there is none."""
        ...

    async def get_tracked(self, key: str) -> bytes | None:
        """Return the value of a record as `get` does. `tracked` knows it until it is changed."""
        ...

    async def report(self) -> None:
        """Wait until the changes of this process were reported to the others."""


class PartedStore(Store, Protocol):
    """A store of several parts, each of which can lose its past alone, such as the primaries of a Redis Cluster."""

    @property
    def parts(self) -> Sequence[str]:
        """A name for each part; a record is in it whose key has the name in braces. None before the first command."""
        ...


async def retry(work: Callable[[], Awaitable[_ResultT]], seconds: float) -> _ResultT:
    """Return the result of work on a store; repeat it for some seconds while the store cannot be reached.

    Raises the StoreUnavailableError of the last attempt.
    """
    loop = asyncio.get_running_loop()
    until, attempts = loop.time() + seconds, 0
    while True:
        try:
            return await work()
        except StoreClosedError:
            raise
        except StoreUnavailableError:
            delay = _DELAYS[min(attempts, len(_DELAYS) - 1)]
            if loop.time() + delay > until:
                raise
        attempts += 1
        await asyncio.sleep(delay)


def _unknown(key: str) -> None:
    """Say that a record is not known."""


class RetryingStore:
    """Another store, whose commands are repeated for some seconds where a second time changes nothing."""

    def __init__(self, store: Store, seconds: float) -> None:
        """Repeat the commands of a store for so many seconds."""
        self.store = store
        self._seconds = seconds
        self._tracking = cast(TrackingStore, store) if hasattr(store, "get_tracked") else None
        self._parted = cast(PartedStore, store) if hasattr(store, "parts") else None
        # Each request calls this.
        self.tracked = _unknown if self._tracking is None else self._tracking.tracked

    @property
    def parts(self) -> Sequence[str]:
        """A name for each part of the store, if it has several."""
        return () if self._parted is None else self._parted.parts

    async def get_tracked(self, key: str) -> bytes | None:
        """Return the value of a record, which `tracked` knows until it is changed, if the store can do that."""
        if self._tracking is None:
            return await self.get(key)
        return await retry(partial(self._tracking.get_tracked, key), self._seconds)

    async def report(self) -> None:
        """Wait until the changes of this process were reported to the others, where they need not read."""
        if self._tracking is not None:
            await retry(self._tracking.report, self._seconds)

    def repeat(self, work: Callable[[], Awaitable[_ResultT]]) -> Coroutine[Any, Any, _ResultT]:
        """Return the result of work on `store`, which is repeated as commands are."""
        return retry(work, self._seconds)

    async def get(self, key: str) -> bytes | None:
        """Return the value of a record."""
        try:
            return await self.store.get(key)
        except StoreClosedError:
            raise
        except StoreUnavailableError:
            return await retry(lambda: self.store.get(key), self._seconds)

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        """Store a record if its value is the expected one, or if a failed attempt has stored it."""
        attempts = 0

        async def work() -> bool:
            nonlocal attempts
            attempts += 1
            is_stored = await self.store.put(key, value, ttl, expected)
            return is_stored or (attempts > 1 and await self.store.get(key) == value)

        return await retry(work, self._seconds)

    def touch(self, key: str, ttl: float) -> Coroutine[Any, Any, bytes | None]:
        """Let the time to live of a record begin anew; return its value."""
        return retry(partial(self.store.touch, key, ttl), self._seconds)

    async def delete(self, key: str) -> bool:
        """Delete a record; True also if a failed attempt may have done so."""
        attempts = 0

        async def work() -> bool:
            nonlocal attempts
            attempts += 1
            return await self.store.delete(key) or attempts > 1

        return await retry(work, self._seconds)

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter, once: a failed attempt may have counted."""
        return await self.store.count(key, amount, ttl)

    async def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> int:
        """Append entries to a stream; without `after` and `token`, once."""
        try:
            return await self.store.append(stream, entries, ttl, after, token)
        except StoreClosedError:
            raise
        except StoreUnavailableError:
            if after is None and not token:
                raise
            return await retry(lambda: self.store.append(stream, entries, ttl, after, token), self._seconds)

    def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> Coroutine[Any, Any, list[NumberedEntry]]:
        """Return the stored entries of a stream that follow a number."""
        return retry(partial(self.store.read, stream, after, limit), self._seconds)

    def last(self, stream: str) -> Coroutine[Any, Any, int]:
        """Return the number of the last entry of a stream."""
        return retry(partial(self.store.last, stream), self._seconds)

    async def drop(self, *streams: str) -> None:
        """Delete streams."""
        await retry(lambda: self.store.drop(*streams), self._seconds)

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the subscribers of a channel, perhaps twice."""
        await retry(lambda: self.store.publish(channel, message), self._seconds)

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel."""
        await retry(lambda: self.store.subscribe(channel, receive), self._seconds)

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()


# Rate limits of clients that hold over all workers.


async def acquire(store: Store, key: str, rate: RateLimit, now: Callable[[], float] | None = None) -> float:
    """Take a token of the bucket that all workers share and return 0.0, or return the seconds until there is one.

    Stored is the time at which the bucket is full again (the generic cell rate algorithm). Raises
    StoreUnavailableError.
    """
    interval = 1 / rate.per_second
    # Requests of one worker wait for each other, so that only other workers can be in between.
    lock = _locks.setdefault(key, asyncio.Lock())
    async with lock:
        while True:
            stored, present = await store.get(key), (now or clock.wall)()
            full = present if stored is None else max(float(stored), present)
            if (wait := full - present - (rate.burst - 1) * interval) > 1e-9:
                return wait
            full += interval
            if await store.put(key, repr(full).encode(), full - present + _LATE_SECONDS, stored):
                return 0.0
