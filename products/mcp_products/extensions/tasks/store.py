"""Task stores: the interface, and a store in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple, Protocol

from pydantic_core import to_json

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.usage.keywords import checked_fields
from mcp_runtime.usage.rules import FLAG, Rule, is_number

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

TERMINAL_STATUSES: Final[frozenset[Status]] = frozenset({"completed", "failed", "cancelled"})
_PLACE_BYTES: Final = 256 * 1024
_MIN_SECONDS = 0.001  # The wire format has whole milliseconds.
_NUMBER: Final = Rule(is_number, "a number of seconds")
_TIMES: Final = Rule(
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "how often, such as 3"
)
_FLAGS: Final = dict.fromkeys(("immediately", "required", "repeatable"), FLAG)


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

    async def get(self, id: str) -> TaskRecord | None:
        """Return the task with this id, None if it does not exist or has expired."""
        ...

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task; do nothing if it does not exist any more."""


class HeldTask(NamedTuple):
    """What limits have to know of a task that is stored: who has it, whether it has ended, and the bytes of its end."""

    holder: str
    has_ended: bool
    size: int = 0

    @classmethod
    def of(cls, record: TaskRecord) -> HeldTask:
        """Return what limits have to know of a record."""
        has_ended = record.status in TERMINAL_STATUSES
        return cls(record.holder, has_ended, len(to_json(record.detail)) if has_ended else 0)

    @property
    def places(self) -> int:
        """How many tasks it counts as: one, and one more for each 256 KiB."""
        return 1 + self.size // _PLACE_BYTES


class TaskLimits(NamedTuple):
    """How many tasks there may be, and how many of one user. A task with a long result counts as several."""

    tasks: int = 1000
    of_user: int = 100


def make_room(held: Mapping[str, HeldTask], record: TaskRecord, limits: TaskLimits) -> list[str]:
    """Return the ids of the tasks to drop for a new one: none, or some of the client that has most of them.

    So one client cannot take the places of all others: if all are taken, and another client has more places than this
    one, the oldest of its tasks that have ended are dropped; if none has ended, and that client has more than a user
    may have, this one has its share besides.

    Args:
        held: The tasks that have not expired, the oldest first.
        record: The new task.
        limits: How many there may be.

    Raises LocalError if the client has its share already.
    """
    counts: Counter[str] = Counter()
    for task in held.values():
        counts[task.holder] += task.places
    holder, taken = record.holder, counts.total()
    owned = counts[holder]
    may_have_more = not record.owner or owned < limits.of_user
    if may_have_more and taken < limits.tasks:
        return []
    dropped: list[str] = []
    largest, most = counts.most_common(1)[0]
    if may_have_more:
        for id, task in held.items():
            if task.holder == largest and task.has_ended and most > owned:
                dropped.append(id)
                most -= task.places
                taken -= task.places
                if taken < limits.tasks:
                    return dropped
        if not dropped and most > limits.of_user and owned < limits.tasks // len({*counts, holder}):
            return []
    if dropped and may_have_more:
        return dropped
    number = sum(task.holder == holder for task in held.values())
    long = "" if taken == len(held) else "; those with long results count as several"
    raise LocalError(f"there are {len(held)} tasks already, {number} of this user{long}; try again later")


class InMemoryTaskStore:
    """A store in the memory of this process."""

    def __init__(
        self, max_tasks: int = 1000, max_tasks_per_owner: int = 100, clock: Callable[[], float] | None = None
    ) -> None:
        """Create an empty store.

        Args:
            max_tasks: The maximum number of tasks. One counts as one more for each 256 KiB of its result.
            max_tasks_per_owner: The maximum number of tasks of one authenticated user. Clients without a user share
                what there is: see `make_room`.
            clock: Returns the current time in seconds since 1970.
        """
        self._limits = TaskLimits(max_tasks, max_tasks_per_owner)
        self._clock = clocks.wall if clock is None else clock
        self._records: dict[str, TaskRecord] = {}
        self._held: dict[str, HeldTask] = {}

    def __len__(self) -> int:
        return len(self._records)

    async def add(self, record: TaskRecord) -> None:
        """Store a new task until it expires. Raises LocalError if there are too many tasks."""
        now = self._clock()
        if len(self._records) >= self._limits.tasks:
            for id in [id for id, stored in self._records.items() if stored.expires <= now]:
                self._drop(id)
        for id in make_room(self._held, record, self._limits):
            self._drop(id)
        self._records[record.id] = record
        self._held[record.id] = HeldTask.of(record)
        if record.ttl is not None:
            asyncio.get_running_loop().call_later(record.ttl, self._drop, record.id, context=Context())

    def _drop(self, id: str) -> None:
        self._records.pop(id, None)
        self._held.pop(id, None)

    async def get(self, id: str) -> TaskRecord | None:
        """Return the task with this id, None if it does not exist or has expired."""
        record = self._records.get(id)
        return record if record is not None and record.expires > self._clock() else None

    async def update(self, record: TaskRecord) -> None:
        """Replace the record of a task; do nothing if it does not exist any more."""
        if record.id in self._records:
            self._records[record.id] = record
            self._held[record.id] = HeldTask.of(record)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Task options: when a call becomes a task, and how long its result is stored.


@checked_fields(rules={"ttl": _NUMBER.or_none(), "poll_interval": _NUMBER, "retries": _TIMES, **_FLAGS})
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The options of calls that become tasks, on a server with the tasks extension.

    Args:
        ttl: The seconds to store the task, counted from its creation; None stores it as long as the server runs.
        poll_interval: The seconds that a client should wait between two polls.
        immediately: Whether the call becomes a task before the handler runs. If False, the handler decides with
            `ctx.as_task()`.
        required: Whether to reject clients that do not support tasks. If False, they get the result itself.
        repeatable: Whether the function may run twice: its tasks run by a queue in Redis, and one whose worker is
            killed begins again at another worker. It needs the extra `docket`.
        retries: How often a repeatable task begins again whose function has raised an exception: 1, 2, 4 … 64 seconds
            later. Exceptions whose text the client gets, such as ToolError, are results.

    Raises LocalError for seconds less than 0.001, for options that contradict each other, and without the package that
    repeatable tasks need.
    """

    ttl: float | None = 600.0
    poll_interval: float = 1.0
    immediately: bool = True
    required: bool = False
    repeatable: bool = False
    retries: int = 0

    def __post_init__(self) -> None:
        if self.poll_interval < _MIN_SECONDS or (self.ttl is not None and self.ttl < _MIN_SECONDS):
            raise LocalError("the ttl and the poll_interval of a task are at least 0.001 seconds")
        _check_repeatable(self.repeatable, self.retries, self.immediately)


def _check_repeatable(repeatable: bool, retries: int, immediately: bool) -> None:
    if retries and not repeatable:
        raise LocalError(
            f"TaskOptions(): only a function that may run twice has retries: write TaskOptions(repeatable=True, "
            f"retries={retries})"
        )
    if repeatable and not immediately:
        raise LocalError("TaskOptions(): a repeatable task begins before its function: leave out immediately=False")
    if repeatable and find_spec("docket") is None:
        raise LocalError("TaskOptions(): repeatable=True needs docket: pip install 'mcp-generated[docket]'")
