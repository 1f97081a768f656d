"""How often something may happen goes in; whether it may happen now comes out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` times a second for as long as one likes, and `burst` times at once after a pause."""

    per_second: float
    burst: int


class Allowance:
    """What is left of a rate; it fills up again as time goes by. `clock` gives seconds."""

    __slots__ = ("_clock", "_left", "_rate", "_seen")

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._left = float(rate.burst)
        self._seen = clock()

    def take(self) -> float:
        """Use it once and give 0.0, or, where nothing is left, the seconds until there is something again."""
        now, rate = self._clock(), self._rate
        self._left = min(float(rate.burst), self._left + (now - self._seen) * rate.per_second)
        self._seen = now
        if self._left < 1:
            return (1 - self._left) / rate.per_second
        self._left -= 1
        return 0.0
