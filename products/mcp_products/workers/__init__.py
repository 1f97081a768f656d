"""Several processes as one endpoint: stores, shared sessions, shared tasks, and the processes themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .sessions.endpoint import share_endpoint as share_endpoint
    from .sessions.state import StoredStates as StoredStates
    from .stores.retries import RetryingStore as RetryingStore
    from .stores.retries import acquire as acquire
    from .stores.urls import open_store as open_store
    from .supervisor import TemporaryStore as TemporaryStore
    from .supervisor import WorkerPlace as WorkerPlace
    from .supervisor import check_program as check_program
    from .supervisor import supervise as supervise
    from .tasks.shared import SharedTasks as SharedTasks

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "supervisor": ("TemporaryStore", "WorkerPlace", "check_program", "supervise"),
        "sessions.endpoint": ("share_endpoint",),
        "sessions.state": ("StoredStates",),
        "stores.retries": ("RetryingStore", "acquire"),
        "stores.urls": ("open_store",),
        "tasks.shared": ("SharedTasks",),
    },
)
