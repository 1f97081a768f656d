"""The request that a program's log records belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final


class LoggedRequest:
    """A request whose handler may write log records.

    Attributes:
        loop: The event loop of the handler.
        context: A function that makes a context to send log messages with.
        dropped: How many records were not sent, because the client reads too slowly.
        unfinished: The task that waits until the client has read more; None if no message waits.
    """

    __slots__ = ("loop", "context", "dropped", "unfinished")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Callable[[], Any]) -> None:
        """Create the record of a request."""
        self.loop = loop
        self.context = context
        self.dropped = 0
        self.unfinished: asyncio.Task[None] | None = None


CURRENT_REQUEST: Final[ContextVar[LoggedRequest | None]] = ContextVar("mcp_current_request", default=None)


class ForwardingSwitch:
    """Whether a handler of log records exists, so that the current request has to be set.

    Attributes:
        is_on: True from the first handler on.
    """

    __slots__ = ("is_on",)

    def __init__(self) -> None:
        """Create the switch; it is off."""
        self.is_on = False


FORWARDING: Final = ForwardingSwitch()


def set_current_request(context: Callable[[], Any] | None) -> None:
    """Set the request of the current task; None if its log records belong to no request."""
    CURRENT_REQUEST.set(None if context is None else LoggedRequest(asyncio.get_running_loop(), context))
