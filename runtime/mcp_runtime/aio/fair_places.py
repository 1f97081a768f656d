"""A bounded number of places that clients share: none of them takes all, and those that wait take turns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Final

_PART: Final = 2  # A client may have this part of the places that other clients leave: a half.


class FairPlaces:
    """A number of places. A client has at most half of those that the other clients leave, and always one.

    So a client that comes later finds a place, however many requests of another one run or wait. Where all places are
    taken, the clients that wait take turns; the requests of one client are served in their order.
    """

    def __init__(self, limit: int) -> None:
        """Create places that nobody has."""
        self.limit = limit
        self.taken = 0
        self._counts: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # The next client first.

    def share(self, client: Hashable) -> int:
        """Return how many places a client may have at present."""
        others = self.taken - self._counts.get(client, 0)
        return max((self.limit - others) // _PART, 1)

    def may_take(self, client: Hashable) -> bool:
        """Return True if there is a place for a client."""
        return self.taken < self.limit and self._counts.get(client, 0) < self.share(client)

    def take_now(self, client: Hashable) -> None:
        """Take a place that `may_take` has said is there."""
        self._count(client, 1)

    async def take(self, client: Hashable) -> None:
        """Wait for a place, and take it."""
        future = self.enter(client)
        try:
            await future
        except asyncio.CancelledError:
            self.leave(client, future)
            raise

    def enter(self, client: Hashable) -> asyncio.Future[None]:
        """Return a future that is done when the client has a place; `leave` has to be called if it is not waited for
        to the end."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if client not in self._waiting and self.may_take(client):
            self._count(client, 1)
            future.set_result(None)
        else:
            self._waiting.setdefault(client, deque()).append(future)
        return future

    def leave(self, client: Hashable, future: asyncio.Future[None]) -> None:
        """Wait no more, and give the place back that came in the same moment."""
        if future.done() and not future.cancelled():
            return self.give_back(client)
        futures = self._waiting.get(client)
        if futures is not None and future in futures:
            futures.remove(future)
            if not futures:
                del self._waiting[client]

    def give_back(self, client: Hashable) -> None:
        """Give a place of a client back, and let those go on that wait for one."""
        self._count(client, -1)
        self._admit()

    def _admit(self) -> None:
        """Give the free places to clients that wait, to each one after the other."""
        has_given = True
        while has_given and self.taken < self.limit:
            has_given = False
            for client in list(self._waiting):
                if self.may_take(client):
                    has_given = True
                    futures = self._waiting.pop(client)
                    future = futures.popleft()
                    if futures:
                        self._waiting[client] = futures  # Behind the others.
                    if not future.done():  # It is done if its task was cancelled.
                        future.set_result(None)
                        self._count(client, 1)

    def _count(self, client: Hashable, number: int) -> None:
        self.taken += number
        count = self._counts.get(client, 0) + number
        if count:
            self._counts[client] = count
        else:
            del self._counts[client]
