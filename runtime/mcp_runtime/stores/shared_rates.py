"""Rate limits of clients that hold over all workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from ..aio import clock
from ..aio.rate_limit import RateLimit
from .primitives import Store

_LATE_SECONDS: Final = 60.0  # Further seconds for which a rate is stored: the clocks of machines differ.

_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


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
