"""What the core uses of the fast paths, and their switches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

from .switches import BUSY_POLL as BUSY_POLL
from .switches import ENABLED as ENABLED

if TYPE_CHECKING:
    from .heads import CachedRequestHeadParser as CachedRequestHeadParser
    from .tasks import EagerTaskStarter as EagerTaskStarter
    from .worker_threads import WORKER_THREADS as WORKER_THREADS

    if sys.platform == "linux":
        from .stdio import new_event_loop as new_event_loop

__getattr__, __dir__ = lazy_module(
    __name__,
    names={
        "CachedRequestHeadParser": "heads",
        "EagerTaskStarter": "tasks",
        "WORKER_THREADS": "worker_threads",
        "new_event_loop": "stdio",
    },
)
