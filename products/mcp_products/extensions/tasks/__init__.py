"""The tasks extension: run long calls as tasks that clients poll for their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

if TYPE_CHECKING:
    from .client import wait_for_task as wait_for_task
    from .server import TaskServerMixin as TaskServerMixin
    from .store import InMemoryTaskStore as InMemoryTaskStore
    from .store import TaskOptions as TaskOptions
    from .store import TaskRecord as TaskRecord
    from .store import TaskStore as TaskStore

__all__ = ["InMemoryTaskStore", "TaskOptions", "TaskRecord", "TaskServerMixin", "TaskStore", "wait_for_task"]

__getattr__, __dir__ = lazy_module(
    __name__,
    names={
        "TaskOptions": "server",
        "wait_for_task": "client",
        "TaskServerMixin": "server",
        "InMemoryTaskStore": "store",
        "TaskRecord": "store",
        "TaskStore": "store",
    },
)
