"""Whether this process was forked since something was made: connections are not shared by two processes."""

from __future__ import annotations

import os
from typing import Final

OTHER_PROCESS: Final = (
    "the connection belongs to another process, which this one was forked from: connect another client here"
)

OTHER_STORE: Final = (
    "the store is connected by another process, which this one was forked from: make another store here, or fork "
    "before the first use"
)

count: int = 0
"""How many forks are between the start of the program and this process. What was made at another count belongs to a
parent of this process."""


def _count_fork() -> None:
    global count
    count += 1


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_count_fork)
