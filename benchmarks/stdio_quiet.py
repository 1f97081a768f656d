"""A measurement goes in, its figures come out, taken while other processes left the machine alone.

It matters most for calls made one after the other: on a machine at rest each of them wakes a sleeping processor, on a
busy one it does not, and the figures differ by a factor of two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FOREIGN: Final = 0.15  # Of one processor, what others may take meanwhile.
_TRIES: Final = 4


class Quiet:
    """Takes measurements again that others disturbed, as long as `patience` (seconds, in all) lasts."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.disturbed = 0  # Figures that count although others disturbed them.

    def take(self, measurement: Callable[[], T], own: Callable[[], float] = float) -> T:
        """What a measurement gives; `own` are seconds that children which run on have used so far."""
        tries = 0
        while True:
            self._wait()
            start, foreign = time.monotonic(), _foreign() - own()
            taken = measurement()
            seconds = time.monotonic() - start
            tries += 1
            if _foreign() - own() - foreign < _FOREIGN * seconds:
                return taken
            if tries == _TRIES or self._patience < seconds:
                self.disturbed += 1
                return taken
            self._patience -= seconds

    def _wait(self) -> None:
        """Wait until others are at rest, or patience is at its end."""
        while self._patience > 0:
            start, foreign = time.monotonic(), _foreign()
            time.sleep(0.3)
            seconds = time.monotonic() - start
            if _foreign() - foreign < _FOREIGN * seconds:
                return
            self._patience -= seconds


def _foreign() -> float:
    """Seconds of processor time that others have used so far: all there was, less our own and our ended children's."""
    user, nice, system, _, _, interrupts, soft, stolen, *_ = Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    used = sum(map(int, (user, nice, system, interrupts, soft, stolen))) / _TICKS
    return used - sum(os.times()[:4])
