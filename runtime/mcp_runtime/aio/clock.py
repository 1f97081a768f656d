"""The clock of the runtime. Whatever asks how late it is asks here, so that tests can set the time forward.

Write `from ..aio import clock`, then `clock.wall()` and `clock.monotonic()`: the functions are looked up in this module
with each call, and cost what those of `time` cost. An object that takes a clock of its own gets one of these two by
default, when it is made.

Timers are the event loop's: `asyncio.sleep`, `asyncio.timeout` and `loop.call_later` go by `loop.time()`, which is
`monotonic` as well. Who sets these functions sets that of the loop too; `tests/support/clock.py` does.

How long work has taken is measured with `time.perf_counter`: no test sets that.
"""

from __future__ import annotations

from time import monotonic as monotonic
from time import time as wall

__all__ = ["monotonic", "wall"]
