"""Several processes as one endpoint: stores, shared sessions, shared tasks, and the processes themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

if TYPE_CHECKING:
    from .processes.supervisor import TemporaryStore as TemporaryStore
    from .processes.supervisor import WorkerPlace as WorkerPlace
    from .processes.supervisor import check_program as check_program
    from .processes.supervisor import supervise as supervise
    from .sessions.endpoint import share_endpoint as share_endpoint
    from .sessions.state import StoredStates as StoredStates
    from .stores.retries import RetryingStore as RetryingStore
    from .stores.retries import acquire as acquire
    from .stores.urls import open_store as open_store
    from .tasks.shared import SharedTasks as SharedTasks

__all__ = [
    "RetryingStore",
    "SharedTasks",
    "StoredStates",
    "TemporaryStore",
    "WorkerPlace",
    "acquire",
    "check_program",
    "open_store",
    "share_endpoint",
    "supervise",
]

_MODULES = {
    "RetryingStore": "stores.retries",
    "SharedTasks": "tasks.shared",
    "StoredStates": "sessions.state",
    "TemporaryStore": "processes.supervisor",
    "WorkerPlace": "processes.supervisor",
    "acquire": "stores.retries",
    "check_program": "processes.supervisor",
    "open_store": "stores.urls",
    "share_endpoint": "sessions.endpoint",
    "supervise": "processes.supervisor",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
