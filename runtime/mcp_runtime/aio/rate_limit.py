"""How often something may happen goes in; whether it may happen now comes out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`per_second` times a second for as long as one likes, and `burst` times at once after a pause."""

    per_second: float
    burst: int


class TokenBucket:
    """What is left of a rate; it fills up again as time goes by. `clock` gives seconds."""

    __slots__ = ("_clock", "_tokens", "_rate", "_updated")

    def __init__(self, rate: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = float(rate.burst)
        self._updated = clock()

    def acquire(self) -> float:
        """Use it once and give 0.0, or, where nothing is left, the seconds until there is something again."""
        now, rate = self._clock(), self._rate
        self._tokens = min(float(rate.burst), self._tokens + (now - self._updated) * rate.per_second)
        self._updated = now
        if self._tokens < 1:
            return (1 - self._tokens) / rate.per_second
        self._tokens -= 1
        return 0.0
