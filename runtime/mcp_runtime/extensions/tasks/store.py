"""Task stores: the interface, and a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol

from ...aio import clock as clocks
from ...errors import LocalError

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

TERMINAL_STATUSES: Final[frozenset[Status]] = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """The stored state of a task.

    `owner` is the user, as `BaseServer.principal` returns it; `scopes` are the OAuth scopes of requests about the task,
    which its call has required. `created` and `updated` are seconds since 1970; `ttl` and
    `poll_interval` are seconds. `detail` has the JSON property of the status: `result`, `error` or `inputRequests`.
    """

    id: str
    owner: str
    status: Status
    created: float
    updated: float
    ttl: float | None
    poll_interval: float
    scopes: tuple[str, ...] = ()
    message: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def expires(self) -> float:
        """The time of expiration, in seconds since 1970; infinity without a ttl."""
        return float("inf") if self.ttl is None else self.created + self.ttl

    def to_wire(self) -> dict[str, Any]:
        """Return the task as JSON of the protocol."""
        return {
            "taskId": self.id,
            "status": self.status,
            **({} if self.message is None else {"statusMessage": self.message}),
            "createdAt": _iso(self.created),
            "lastUpdatedAt": _iso(self.updated),
            "ttlMs": None if self.ttl is None else max(1, round(self.ttl * 1000)),
            "pollIntervalMs": max(1, round(self.poll_interval * 1000)),
            **self.detail,
        }


class TaskStore(Protocol):
    """A store of tasks, for one process or several. An exception of the store fails the request that needed it."""

    async def add(self, record: TaskRecord) -> None:
        """Store a new task until it expires. Raises LocalError if there are too many tasks."""
        ...

    async def get(self, id: str) -> TaskRecord | None:
        """Return the task with this id, None if it does not exist or has expired."""
        ...

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task; do nothing if it does not exist any more."""
        ...


class InMemoryTaskStore:
    """A store in the memory of this process."""

    def __init__(
        self, max_tasks: int = 1000, max_tasks_per_owner: int = 100, clock: Callable[[], float] | None = None
    ) -> None:
        """Create an empty store.

        Args:
            max_tasks: The maximum number of tasks.
            max_tasks_per_owner: The maximum number of tasks of one authenticated user.
            clock: Returns the current time in seconds since 1970.
        """
        self._max_tasks = max_tasks
        self._max_tasks_per_owner = max_tasks_per_owner
        self._clock = clocks.wall if clock is None else clock
        self._records: dict[str, TaskRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    async def add(self, record: TaskRecord) -> None:
        """Store a new task until it expires. Raises LocalError if there are too many tasks."""
        now = self._clock()
        if len(self._records) >= self._max_tasks:
            self._records = {id: stored for id, stored in self._records.items() if stored.expires > now}
        owned = sum(stored.owner == record.owner for stored in self._records.values()) if record.owner else 0
        if len(self._records) >= self._max_tasks or owned >= self._max_tasks_per_owner:
            raise LocalError(f"there are {len(self._records)} tasks already, {owned} of this user; try again later")
        self._records[record.id] = record
        if record.ttl is not None:
            asyncio.get_running_loop().call_later(record.ttl, self._records.pop, record.id, None)

    async def get(self, id: str) -> TaskRecord | None:
        """Return the task with this id, None if it does not exist or has expired."""
        record = self._records.get(id)
        return record if record is not None and record.expires > self._clock() else None

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task; do nothing if it does not exist any more."""
        if record.id in self._records:
            self._records[record.id] = record


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
