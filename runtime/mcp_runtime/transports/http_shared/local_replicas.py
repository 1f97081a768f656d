"""The sessions that one worker has used last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from ...stores.primitives import StoreUnavailableError
from .session_replicas import SessionReplica
from .worker import Worker

_log: Final = logging.getLogger(__name__)

_UNUSED_SECONDS: Final = 60.0  # Seconds without a request after which a worker forgets a session that the store has.


class Replicas:
    """The sessions that this worker has used last."""

    def __init__(self, worker: Worker, ttl: float, end: Callable[[SessionReplica], None]) -> None:
        self._worker = worker
        self._ttl = ttl
        self._end = end
        self._open: dict[str, SessionReplica] = {}
        self._timer: asyncio.TimerHandle | None = None

    def get(self, id: str) -> SessionReplica | None:
        """Return the replica of a session, if this worker has one."""
        replica = self._open.get(id)
        if replica is not None:
            replica.last_used = self._worker.recent(asyncio.get_running_loop().time())
        return replica

    def add(self, replica: SessionReplica) -> None:
        """Add a replica."""
        loop = asyncio.get_running_loop()
        replica.last_used = self._worker.recent(loop.time())
        self._open[replica.id] = replica
        if self._timer is None:
            self._timer = loop.call_later(self._interval, self._sweep)

    def remove(self, id: str) -> SessionReplica | None:
        """Remove a replica, and return it."""
        return self._open.pop(id, None)

    def __iter__(self) -> Any:
        return iter(list(self._open.values()))

    @property
    def count(self) -> int:
        """The number of replicas."""
        return len(self._open)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _interval(self) -> float:
        return min(self._ttl / 3, _UNUSED_SECONDS)

    def _sweep(self) -> None:
        """Let the sessions live that are busy here, and forget the others after a while."""
        loop = asyncio.get_running_loop()
        for replica in self:
            if replica.is_busy:
                self._worker.spawn(self._touch(replica))
                self._worker.spawn(replica.live_on())
        if any(self._is_unused(replica) for replica in self):
            self._worker.spawn(self._forget_unused())
        self._timer = loop.call_later(self._interval, self._sweep) if self._open else None

    def _is_unused(self, replica: SessionReplica) -> bool:
        is_late = asyncio.get_running_loop().time() - replica.last_used > _UNUSED_SECONDS
        return is_late and not replica.is_busy

    async def _forget_unused(self) -> None:
        """Forget the sessions that were not used, unless the store has lost them: then they are stored again first."""
        try:
            if await self._worker.has_lost():
                return
        except StoreUnavailableError as error:
            return _log.debug("sessions are forgotten later: %s", error)
        for replica in self:
            if self._is_unused(replica):
                self._end(replica)

    async def _touch(self, replica: SessionReplica) -> None:
        """Let a session live; end it here if another worker has ended it, whose message was lost."""
        record = await self._worker.restored(lambda: self._worker.store.touch(replica.key, self._ttl))
        if record is not None and replica.record is not None:
            replica.load(record)  # The message of the worker that has changed it may have been lost.
        elif replica.record is not None:
            replica.has_ended = True
            self._end(replica)
