"""What a tenant uses: a record in the memory of this process, or in the store that workers share."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from pydantic_core import from_json, to_json

from mcp_runtime.aio import clock
from mcp_runtime.aio.rates import RateLimit
from mcp_runtime.stores import Store, StoreUnavailableError

from .limits import KINDS, Limits

_log: Final = logging.getLogger("mcp_runtime.tenants")

_MAX_RECORDS: Final = 100_000  # Tenants whose use is remembered; those that were silent longest are forgotten.
_LATE: Final = 60.0  # Further seconds for which a record is stored: the clocks of machines differ.
_REFUSALS: Final = 50  # Refusals of a tenant a second; a refusal takes about as long as a call.
_REFUSED_AT_ONCE: Final = 20  # Refusals after a pause that come at once.
_REFUSED_WITHIN: Final = 1.0  # Seconds in which each refusal comes.
LEASE: Final = 60.0  # Seconds for which what a worker holds counts, unless the worker confirms it.

# What is used, as JSON. A rate has the time at which nothing of it is used any more (the generic cell rate algorithm).
# What is held has, by its holder, the amount, the time at which it ends by itself, and the time at which it began.
Record = dict[str, Any]
Change = Callable[[Record, float], Any]


class Refusal(NamedTuple):
    """Which limit has refused a request, and the seconds after which there is room again."""

    limit: str
    wait: float


class Take(NamedTuple):
    """What a request takes: amounts of rates by their limits, and what `holder` then holds, by limit."""

    rates: Mapping[str, float] = {}
    holds: Mapping[str, int] = {}
    holder: str = ""
    lease: float = LEASE


def take(record: Record, limits: Limits, wanted: Take, now: float) -> Refusal | None:
    """Change a record by what a request takes; where one limit has no room, change nothing and return the refusal."""
    for limit, amount in wanted.rates.items():
        rate: RateLimit | None = getattr(limits, limit)
        if rate is not None and (wait := _wait(record.get(limit, 0.0), rate, amount, now, KINDS[limit].in_debt)) > 1e-9:
            return Refusal(limit, wait)
    for limit, amount in wanted.holds.items():
        most: int | None = getattr(limits, limit)
        held = _held(record, limit, now)
        own = held.get(wanted.holder)
        if most is not None and sum(one[0] for one in held.values()) + amount > most:
            return Refusal(limit, KINDS[limit].wait or 1.0)
        began = now if own is None else own[2]
        held[wanted.holder] = [amount + (0 if own is None else own[0]), now + wanted.lease, began]
        record[limit] = held
    use(record, limits, wanted.rates, now)
    return None


def _wait(full: float, rate: RateLimit, amount: float, now: float, in_debt: bool) -> float:
    """Return the seconds until a bucket has an amount; what is larger than the bucket waits until it is full."""
    needed = 1.0 if in_debt else min(amount, rate.burst)
    return max(full, now) - now - (rate.burst - needed) / rate.per_second


def use(record: Record, limits: Limits, rates: Mapping[str, float], now: float) -> None:
    """Count what was used of rates, also above their limits."""
    for limit, amount in rates.items():
        rate: RateLimit | None = getattr(limits, limit)
        if rate is not None:
            record[limit] = max(record.get(limit, 0.0), now) + amount / rate.per_second


def hold(record: Record, limit: str, holder: str, amount: float, now: float, lease: float = LEASE) -> None:
    """Set what a holder holds; 0 gives it back."""
    held = _held(record, limit, now)
    own = held.pop(holder, None)
    if amount > 0:
        held[holder] = [amount, now + lease, now if own is None else own[2]]
    record[limit] = held


def give_back(record: Record, limit: str, holder: str, now: float) -> None:
    """Take one from what a holder holds."""
    own = _held(record, limit, now).get(holder)
    if own is not None:
        hold(record, limit, holder, own[0] - 1, now)


def _held(record: Record, limit: str, now: float) -> dict[str, list[float]]:
    held: dict[str, list[float]] = record.get(limit) or {}
    return {holder: own for holder, own in held.items() if own[1] > now}


def refuse_later(record: Record, now: float) -> float:
    """Return the seconds after which a refusal is sent; `record` has when the next one of the tenant is due."""
    due: float = max(record.get("due", 0.0), now - (_REFUSED_AT_ONCE - 1) / _REFUSALS)
    record["due"] = due + 1 / _REFUSALS
    return min(max(due - now, 0.0), _REFUSED_WITHIN)


def _expires(record: Record, now: float) -> float:
    """Return the time at which a record says nothing any more."""
    times = [now]
    for limit, value in record.items():
        times += [value] if KINDS[limit].wait is None else [own[1] for own in value.values()]
    return max(times)


class Records:
    """The records of tenants. Each of them has two: what each request changes, and what is held for long."""

    def __init__(self) -> None:
        """Create records of nothing."""
        self._local: OrderedDict[str, Record] = OrderedDict()  # The last one used is the last.
        self._known: OrderedDict[str, bytes] = OrderedDict()  # As this process has stored it last.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def change(self, store: Store, key: str, change: Change) -> Any:
        """Return what a change of a record returns. Without the store, what this process knows is changed."""
        try:
            return await self._change_stored(store, f"tenant:{sha256(key.encode()).hexdigest()[:32]}", change)
        except StoreUnavailableError as error:
            _log.warning("each worker counts the requests of a tenant for itself: %s", error)
            return self.change_here(key, change)

    def change_here(self, key: str, change: Change) -> Any:
        """Return what a change of a record in this process returns."""
        record, now = self._local.get(key), clock.wall()
        if record is None:
            record = self._local[key] = {}
            if len(self._local) > _MAX_RECORDS:
                self._local.popitem(last=False)
        else:
            self._local.move_to_end(key)
        outcome = change(record, now)
        if not any(record.values()):
            del self._local[key]
        return outcome

    async def _change_stored(self, store: Store, key: str, change: Change) -> Any:
        # Changes of one worker wait for each other, so that only other workers can be in between.
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            known = self._known.pop(key, None)
            stored = known if known is not None else await store.get(key)
            while True:
                now = clock.wall()
                record: Record = {} if stored is None else from_json(stored)
                outcome = change(record, now)
                value = to_json(record)
                if value == stored and known is None:
                    return outcome
                if await store.put(key, value, _expires(record, now) - now + _LATE, stored):
                    self._known[key] = value
                    if len(self._known) > _MAX_RECORDS:
                        self._known.popitem(last=False)
                    return outcome
                known, stored = None, await store.get(key)
