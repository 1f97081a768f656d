"""Repeat measurements that other processes disturb.

This is important for sequential calls: on an idle machine each call wakes a sleeping CPU, on a busy one it does not,
and the values differ by a factor of two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FOREIGN: Final = 0.15  # Of one CPU: the share that other processes may use.
_TRIES: Final = 4


class Quiet:
    """Repeats disturbed measurements, for at most `seconds` in total."""

    def __init__(self, seconds: float) -> None:
        self._remaining = seconds
        self.disturbed = 0  # Disturbed measurements that count.

    def take(self, measurement: Callable[[], T], own: Callable[[], float] = float) -> T:
        """Return the result of a measurement. `own` returns the CPU seconds of our children that continue to run."""
        tries = 0
        while True:
            self._wait()
            start, foreign = time.monotonic(), _foreign() - own()
            result = measurement()
            seconds = time.monotonic() - start
            tries += 1
            if _foreign() - own() - foreign < _FOREIGN * seconds:
                return result
            if tries == _TRIES or self._remaining < seconds:
                self.disturbed += 1
                return result
            self._remaining -= seconds

    def _wait(self) -> None:
        """Wait until other processes are idle, or the remaining time is over."""
        while self._remaining > 0:
            start, foreign = time.monotonic(), _foreign()
            time.sleep(0.3)
            seconds = time.monotonic() - start
            if _foreign() - foreign < _FOREIGN * seconds:
                return
            self._remaining -= seconds


def _foreign() -> float:
    """Return the CPU seconds of other processes: the total minus our own and those of our ended children."""
    user, nice, system, _, _, interrupts, soft, stolen, *_ = (
        Path("/proc/stat").read_text(encoding="utf-8").split("\n")[0].split()[1:]
    )
    used = sum(map(int, (user, nice, system, interrupts, soft, stolen))) / _TICKS
    return used - sum(os.times()[:4])
