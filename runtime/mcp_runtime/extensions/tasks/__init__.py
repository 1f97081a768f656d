"""Calls go in whose handlers take long; tasks come out, which clients ask for until their results are there."""

from ...server.task_options import TaskOptions as TaskOptions
from .client import wait_for_task as wait_for_task
from .server import TaskServerMixin as TaskServerMixin
from .store import InMemoryTaskStore as InMemoryTaskStore
from .store import TaskRecord as TaskRecord
from .store import TaskStore as TaskStore
