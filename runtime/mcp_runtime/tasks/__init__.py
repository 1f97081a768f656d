"""Calls go in whose handlers take long; tasks come out, which clients ask for until their results are there."""

from ..faces.following import wait_for_task as wait_for_task
from ..faces.tasking import TaskOptions as TaskOptions
from .kept import InMemoryTaskStore as InMemoryTaskStore
from .kept import TaskRecord as TaskRecord
from .kept import TaskStore as TaskStore
from .serving import TaskServerMixin as TaskServerMixin
