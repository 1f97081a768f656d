"""A handler that says how its answer becomes a task goes in; what takes its word comes out of a server that has tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..errors import LocalError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """How a call becomes a task: kept for `ttl` seconds from its creation (None: as long as the server runs), to be
    asked for every `poll` seconds. It does so at once, or, without `at_once`, when the handler says `ctx.as_task()`;
    clients that do not know tasks are answered without, or, where it is `needed`, refused. Raises LocalError for
    seconds that are none."""

    ttl: float | None = 600.0
    poll_interval: float = 1.0
    immediately: bool = True
    required: bool = False

    def __post_init__(self) -> None:
        if self.poll_interval < 0.001 or (self.ttl is not None and self.ttl < 0.001):
            raise LocalError("a task is kept, and asked for, after milliseconds at the least")


class Deferrable(Protocol):
    """A call whose answer may be a task, which has the answer later."""

    async def begin(self, options: TaskOptions) -> bool:
        """Answer with a task now, where the client knows tasks, and whether it does. Raises JSONRPCError where it has to."""
        ...

    async def set_status_message(self, message: str) -> None:
        """What the task is at, in words; nothing where it is none."""
        ...
