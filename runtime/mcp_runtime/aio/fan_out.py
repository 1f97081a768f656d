"""What is sent to many clients: one that does not read delays nobody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from ..errors import MCPError
from .tasks import begin_at_once

_log: Final = logging.getLogger(__name__)

_PATIENCE: Final = 0.1  # Seconds that a sender waits for clients that do not read.
_MAX_WAITING: Final = 64  # Messages of one client that wait, besides what its stream holds; further ones are left out.

Sending = Callable[[], Coroutine[Any, Any, None]]


class FanOut:
    """Sends messages to clients.

    A sender waits a moment for a client that does not read, so that it is no faster than its clients, and not at all
    for one that has not read earlier messages. What such a client may have waiting is bounded.
    """

    def __init__(self) -> None:
        """Create a sender to clients that all read."""
        self._waiting: dict[object, set[asyncio.Task[None]]] = {}  # Tasks that a sender has left.

    async def send(self, client: object, sending: Coroutine[Any, Any, None]) -> None:
        """Send a message to one client: at once up to the first wait, so that a result that follows it comes after it.

        Raises what it raises up to there.
        """
        has_waiting = client in self._waiting
        task = self._begin(client, sending)
        if task is not None:
            self._leave(client, task)
            if not has_waiting:
                await asyncio.wait([task], timeout=_PATIENCE)

    async def send_all(self, sendings: Iterable[tuple[object, Sending]]) -> None:
        """Send a message to each of these clients, to each at once up to the first wait."""
        begun: dict[asyncio.Task[None], object] = {}
        for client, sending in sendings:
            has_waiting = client in self._waiting
            try:
                task = self._begin(client, sending())
            except Exception as error:
                _log_failure(error)
                continue
            if task is not None and has_waiting:
                self._leave(client, task)
            elif task is not None:
                begun[task] = client
        if not begun:
            if self._waiting:
                await asyncio.sleep(0)  # What was sent to clients that have not read earlier messages goes on.
            return
        late: set[asyncio.Task[None]] = set()
        try:
            late = (await asyncio.wait(begun, timeout=_PATIENCE))[1]
        except asyncio.CancelledError:
            late = {task for task in begun if not task.done()}
            raise
        finally:
            for task, client in begun.items():
                if task in late:
                    self._leave(client, task)
                else:
                    _note(task)

    def _begin(self, client: object, sending: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Send a message up to the first wait, and return the task that goes on; None if it was sent, or left out."""
        if len(self._waiting.get(client, ())) >= _MAX_WAITING:
            sending.close()
            return None
        return begin_at_once(asyncio.get_running_loop(), sending)

    def _leave(self, client: object, task: asyncio.Task[None]) -> None:
        """Let a message wait without its sender."""
        waiting = self._waiting.setdefault(client, set())
        waiting.add(task)
        if len(waiting) == _MAX_WAITING:
            _log.warning("a client does not read what it is sent: further notifications are left out until it does")
        task.add_done_callback(lambda done: self._sent(client, done))

    def _sent(self, client: object, task: asyncio.Task[None]) -> None:
        waiting = self._waiting[client]
        waiting.discard(task)
        if not waiting:
            del self._waiting[client]
        _note(task)


def _note(task: asyncio.Task[None]) -> None:
    """Log why a message was not sent."""
    if not task.cancelled() and isinstance(error := task.exception(), Exception):
        _log_failure(error)


def _log_failure(error: Exception) -> None:
    if isinstance(error, MCPError):
        _log.debug("not sent to a client: %s", error)
    else:
        _log.error("a message could not be sent to a client", exc_info=error)
