"""Tasks go in as records, and are found by their ids until they expire: where they are kept, and a place in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol

from ...errors import LocalError

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

TERMINAL_STATUSES: Final[frozenset[Status]] = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task as it is kept. `owner` is whose it is, as `BaseServer.principal` says; `created` and `updated` are seconds
    since 1970, `ttl` and `poll` seconds; `detail` is what goes with the status, as JSON: `result`, `error` or
    `inputRequests`."""

    id: str
    owner: str
    status: Status
    created: float
    updated: float
    ttl: float | None
    poll_interval: float
    message: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def expires(self) -> float:
        """When it may be forgotten, in seconds since 1970."""
        return float("inf") if self.ttl is None else self.created + self.ttl

    def to_wire(self) -> dict[str, Any]:
        """The task as JSON of the protocol."""
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
    """Where tasks are kept, for one process or for several. What it raises fails the request that needed it."""

    async def add(self, record: TaskRecord) -> None:
        """Keep a new task until it expires; afterwards `find` finds it. Raises LocalError where there are too many."""
        ...

    async def get(self, id: str) -> TaskRecord | None:
        """The task of this id, unless it has expired."""
        ...

    async def update(self, record: TaskRecord) -> None:
        """Replace a task by what has become of it; one that is not kept any more stays away."""
        ...


class InMemoryTaskStore:
    """Tasks in the memory of this process: `most` of them, and `most_of_one` of one user who is known."""

    def __init__(
        self, max_tasks: int = 1000, max_tasks_per_owner: int = 100, clock: Callable[[], float] = time.time
    ) -> None:
        self._max_tasks = max_tasks
        self._max_tasks_per_owner = max_tasks_per_owner
        self._clock = clock
        self._records: dict[str, TaskRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    async def add(self, record: TaskRecord) -> None:
        now = self._clock()
        if len(self._records) >= self._max_tasks:
            self._records = {id: each for id, each in self._records.items() if each.expires > now}
        of_one = sum(each.owner == record.owner for each in self._records.values()) if record.owner else 0
        if len(self._records) >= self._max_tasks or of_one >= self._max_tasks_per_owner:
            raise LocalError(f"there are {len(self._records)} tasks already, {of_one} of this user")
        self._records[record.id] = record
        if record.ttl is not None:
            asyncio.get_running_loop().call_later(record.ttl, self._records.pop, record.id, None)

    async def get(self, id: str) -> TaskRecord | None:
        found = self._records.get(id)
        return found if found is not None and found.expires > self._clock() else None

    async def update(self, record: TaskRecord) -> None:
        if record.id in self._records:
            self._records[record.id] = record


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
