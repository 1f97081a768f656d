"""The tasks extension: run long calls as tasks that clients poll for their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .client import wait_for_task as wait_for_task
    from .server import TaskServerMixin as TaskServerMixin
    from .store import InMemoryTaskStore as InMemoryTaskStore
    from .store import TaskOptions as TaskOptions
    from .store import TaskRecord as TaskRecord
    from .store import TaskStore as TaskStore

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "client": ("wait_for_task",),
        "server": ("TaskOptions", "TaskServerMixin"),
        "store": ("InMemoryTaskStore", "TaskRecord", "TaskStore"),
    },
)
