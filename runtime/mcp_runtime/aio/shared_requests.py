"""Requests to another server: one at a time for each key, few at once, and none for longer than a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

from .shared_work import SharedWorks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedRequests(Generic[K, V]):
    """Runs requests whose result depends only on their key: those with the same key at the same time share one."""

    def __init__(self, at_once: int, *, seconds: float, at_once_of_group: int | None = None) -> None:
        """Create an empty set of requests.

        Args:
            at_once: Requests that run at the same time; further ones wait.
            seconds: Seconds for a request, the time that it waits included.
            at_once_of_group: The same for those of one group, such as a host. Default None: no further limit.
        """
        self._slots = asyncio.Semaphore(at_once)
        self._at_once_of_group = at_once_of_group
        self._groups: dict[Hashable, _Group] = {}
        self._running: SharedWorks[K, V] = SharedWorks("a request to another server", seconds)

    async def run(self, key: K, request: Callable[[], Coroutine[Any, Any, V]], group: Hashable = None) -> V:
        """Return the result of the running request with this key, or else of a new one. Raises TimeoutError."""
        return await self._running.run(key, lambda: self._run(request, group))

    async def _run(self, request: Callable[[], Awaitable[V]], group: Hashable) -> V:
        async with AsyncExitStack() as slots:
            if self._at_once_of_group is not None:
                members = self._groups.setdefault(group, _Group(self._at_once_of_group))
                members.count += 1
                slots.callback(self._leave, group, members)
                await slots.enter_async_context(members.slots)
            await slots.enter_async_context(self._slots)
            return await request()

    def _leave(self, group: Hashable, members: _Group) -> None:
        members.count -= 1
        if not members.count:
            del self._groups[group]


class _Group:
    """The slots of one group, and the number of requests that have one or wait for one."""

    def __init__(self, slots: int) -> None:
        self.slots = asyncio.Semaphore(slots)
        self.count = 0
