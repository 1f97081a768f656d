"""The handlers of a session that have not ended yet."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.events import RequestReceived
from .interfaces import Reply

_CANCEL_SECONDS: Final = 0.4  # Seconds for cancelled handlers to end.


@dataclass(slots=True)
class RunningRequest:
    """A request of the peer whose handler waits for something."""

    request: RequestReceived
    reply: Reply
    task: asyncio.Task[None]


async def finish_tasks(tasks: Collection[asyncio.Task[Any]], timeout: float) -> None:
    """Wait up to `timeout` seconds for tasks to end, then cancel them; `tasks` loses the tasks that have ended."""
    if tasks and timeout:
        await asyncio.wait(tasks, timeout=timeout)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
