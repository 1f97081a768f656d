"""A token bucket, which limits a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..errors import LocalError
from ..usage.keywords import checked_fields
from ..usage.rules import Rule, is_number
from . import clock as clocks


@checked_fields(rules={"per_second": Rule(is_number, "a number"), "burst": Rule(is_number, "a whole number")})
@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate limit.

    Args:
        per_second: Uses a second in the long run.
        burst: Uses at once after a pause.

    Raises LocalError unless both are above 0.
    """

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if not self.per_second > 0 or self.burst < 1:
            raise LocalError("RateLimit(): per_second must be above 0 and burst at least 1: write None for no limit")


# What one client or one request may do where nobody has said otherwise: here, and nowhere else.
COMPLETIONS: Final = RateLimit(per_second=100, burst=500)  # `complete` requests of a client: one at each key.
LOG_MESSAGES: Final = RateLimit(per_second=1000, burst=5000)  # To a client; further ones are dropped.
PROGRESS: Final = RateLimit(per_second=50, burst=200)  # Of one request; further ones are dropped, except the last.
TASK_STATUS: Final = RateLimit(per_second=50, burst=200)  # Changes of one task that are stored; then the last one.
SERVER_REQUESTS: Final = RateLimit(per_second=1, burst=60)  # Each of these shows a user something, or costs money.


class TokenBucket:
    """A token bucket, which is full at first; `clock` returns the current time in seconds, by default monotonic."""

    __slots__ = ("_clock", "_tokens", "_rate", "_updated")

    def __init__(self, rate: RateLimit, clock: Callable[[], float] | None = None) -> None:
        self._rate = rate
        self._clock = clock or clocks.monotonic
        self._tokens = float(rate.burst)
        self._updated = self._clock()

    def acquire(self) -> float:
        """Take a token and return 0.0; if there is none, return the seconds until there is one."""
        now, rate = self._clock(), self._rate
        self._tokens = min(float(rate.burst), self._tokens + (now - self._updated) * rate.per_second)
        self._updated = now
        if self._tokens < 1:
            return (1 - self._tokens) / rate.per_second
        self._tokens -= 1
        return 0.0
