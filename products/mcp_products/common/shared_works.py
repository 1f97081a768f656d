"""Pieces of work that callers share, by a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from mcp_runtime.aio.shared_work import SharedWork

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedWorks(Generic[K, T]):
    """Pieces of shared work, by a key: those with the same key at the same time are one."""

    def __init__(self, name: str, seconds: float | None = None) -> None:
        """Create an empty set; `name` and `seconds` are those of each piece of work."""
        self._name = name
        self._seconds = seconds
        self._running: dict[K, SharedWork[T]] = {}

    def __len__(self) -> int:
        return len(self._running)

    async def run(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the work with this key that runs, or else of new work; see `SharedWork.run`."""
        shared = self._running.get(key)
        if shared is None:
            shared = self._running[key] = SharedWork(self._name, self._seconds)
            shared.begin(work).add_done_callback(lambda _: self._forget(key, shared))
        return await shared.run(work)

    async def close(self) -> None:
        """End all work, and wait until it has ended."""
        await asyncio.gather(*(shared.close() for shared in list(self._running.values())))

    def _forget(self, key: K, shared: SharedWork[T]) -> None:
        if self._running.get(key) is shared and not shared.is_running:
            del self._running[key]
