"""Calls go in whose handlers take long; tasks come out, which clients ask for until their results are there."""

from ..faces.following import follow as follow
from ..faces.tasking import Task as Task
from .kept import MemoryTasks as MemoryTasks
from .kept import TaskRecord as TaskRecord
from .kept import TaskStore as TaskStore
from .serving import Tasked as Tasked
