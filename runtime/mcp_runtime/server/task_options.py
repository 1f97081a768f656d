"""Task options: when a call becomes a task, and how long its result is stored."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Protocol

from ..errors import LocalError
from ..usage.keywords import checked_fields
from ..usage.rules import FLAG, Rule, is_number

_MIN_SECONDS = 0.001  # The wire format has whole milliseconds.
_NUMBER: Final = Rule(is_number, "a number of seconds")


_TIMES: Final = Rule(
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "how often, such as 3"
)
_FLAGS: Final = dict.fromkeys(("immediately", "required", "repeatable"), FLAG)


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


class Deferrable(Protocol):
    """A request that can be answered with a task, whose result follows later."""

    async def begin(self, options: TaskOptions) -> bool:
        """Answer the request with a task, and return True; return False if the client does not support tasks. Raises
        JSONRPCError if it does not and `options.required` is set."""
        ...

    async def set_status_message(self, message: str) -> None:
        """Set the status message of the task; do nothing if the request has not become one."""
        ...
