"""Task options: when a call becomes a task, and how long its result is stored."""

from __future__ import annotations

from typing import Final, Protocol

from ..errors import LocalError
from ..usage.keywords import checked_fields
from ..usage.records import FrozenRecord
from ..usage.rules import FLAG, Rule, is_number

_MIN_SECONDS = 0.001  # The wire format has whole milliseconds.
_NUMBER: Final = Rule(is_number, "a number of seconds")


@checked_fields(rules={"ttl": _NUMBER.or_none(), "poll_interval": _NUMBER, "immediately": FLAG, "required": FLAG})
class TaskOptions(FrozenRecord):
    """The options of calls that become tasks, on a server with the tasks extension.

    Args:
        ttl: The seconds to store the task, counted from its creation; None stores it as long as the server runs.
        poll_interval: The seconds that a client should wait between two polls.
        immediately: Whether the call becomes a task before the handler runs. If False, the handler decides with
            `ctx.as_task()`.
        required: Whether to reject clients that do not support tasks. If False, they get the result itself.

    Raises LocalError for seconds less than 0.001.
    """

    __slots__ = ("ttl", "poll_interval", "immediately", "required")

    ttl: float | None
    poll_interval: float
    immediately: bool
    required: bool

    def __init__(
        self,
        *,
        ttl: float | None = 600.0,
        poll_interval: float = 1.0,
        immediately: bool = True,
        required: bool = False,
    ) -> None:
        if poll_interval < _MIN_SECONDS or (ttl is not None and ttl < _MIN_SECONDS):
            raise LocalError("the ttl and the poll_interval of a task are at least 0.001 seconds")
        self._set(ttl=ttl, poll_interval=poll_interval, immediately=immediately, required=required)


class Deferrable(Protocol):
    """A request that can be answered with a task, whose result follows later."""

    async def begin(self, options: TaskOptions) -> bool:
        """Answer the request with a task, and return True; return False if the client does not support tasks. Raises
        JSONRPCError if it does not and `options.required` is set."""
        ...

    async def set_status_message(self, message: str) -> None:
        """Set the status message of the task; do nothing if the request has not become one."""
        ...
