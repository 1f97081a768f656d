"""Task stores: the interface, and a store in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
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

    `owner` is the user, as `BaseServer.principal` returns it; `client` is what has created the task, for limits: the
    user, or else the address or the connection. `scopes` are the OAuth scopes of requests about the task,
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
    client: str = ""
    message: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def holder(self) -> str:
        """Who has the task, for limits: its user, or else the client that has created it."""
        return self.owner or self.client

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


def make_room(records: Mapping[str, TaskRecord], record: TaskRecord, max_tasks: int, max_of_user: int) -> list[str]:
    """Return the ids of the tasks to drop for a new one: none, or one of the client that has most of them.

    So one client cannot take the places of all others: if all are taken, and another client has more tasks than this
    one, the oldest of those that have ended is dropped; if none has ended, and that client has more than a user may
    have, this one has its share besides.

    Args:
        records: The tasks that have not expired.
        record: The new task.
        max_tasks: The maximum number of tasks.
        max_of_user: The maximum number of tasks of one user.

    Raises LocalError if the client has its share already.
    """
    owned = sum(stored.holder == record.holder for stored in records.values()) if record.owner else 0
    if owned < max_of_user and len(records) < max_tasks:
        return []
    counts = Counter(stored.holder for stored in records.values())
    owned = counts[record.holder]
    if not record.owner or owned < max_of_user:
        largest, most = counts.most_common(1)[0]
        ended = (
            id
            for id, stored in records.items()
            if stored.holder == largest and stored.status in TERMINAL_STATUSES and most > owned
        )
        if (oldest := next(ended, None)) is not None:
            return [oldest]
        if most > max_of_user and owned < max_tasks // len({*counts, record.holder}):
            return []
    raise LocalError(f"there are {len(records)} tasks already, {owned} of this user; try again later")


class InMemoryTaskStore:
    """A store in the memory of this process."""

    def __init__(
        self, max_tasks: int = 1000, max_tasks_per_owner: int = 100, clock: Callable[[], float] | None = None
    ) -> None:
        """Create an empty store.

        Args:
            max_tasks: The maximum number of tasks.
            max_tasks_per_owner: The maximum number of tasks of one authenticated user. Clients without a user share
                what there is: see `make_room`.
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
        for id in make_room(self._records, record, self._max_tasks, self._max_tasks_per_owner):
            del self._records[id]
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
