"""A bounded number of places that clients share, none of whom takes all: of connections, of turns to send, of lists."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from mcp_runtime.errors import JSONRPCError
from mcp_runtime.http.clients import ClientKey
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR

_PART: Final = 2  # A client may have this part of the places that other clients leave: a half.
PROCESSES: Final = 256  # Each connection to a command is a process.
HTTP_CONNECTIONS: Final = 10_000
_RETRY_SECONDS: Final = 10  # Sessions last; a client that was refused need not ask at once.


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


# The connections that sessions of clients have for themselves: what is too much is refused.


class NoSessionPlaceError(JSONRPCError):
    """A client has as many sessions with a connection as it may have, or all have."""


class SessionPlaces:
    """A number of connections of sessions, of which a client has at most half of those that others leave.

    A session may last for hours, so that nobody waits for its place: a client without a share is refused at once.
    """

    def __init__(self, limit: int, of: str, setting: str) -> None:
        """Create places that nobody has.

        Args:
            limit: The number of places.
            of: What the connections are to, for messages.
            setting: The setting of the limit, for messages.
        """
        self.limit = limit
        self._places = FairPlaces(limit)
        self._of = of
        self._setting = setting

    def take(self, client: ClientKey | None) -> Callable[[], None]:
        """Take a place, and return what gives it back, once, however often it is called.

        `client` is None over stdio and in memory: there, a session is a process or an object of whoever uses it.
        Raises NoSessionPlaceError.
        """
        if client is None:
            return lambda: None
        if not self._places.may_take(client):
            raise self._error(client)
        self._places.take_now(client)
        taken = [client]

        def give_back() -> None:
            if taken:
                self._places.give_back(taken.pop())

        return give_back

    def _error(self, client: ClientKey) -> NoSessionPlaceError:
        places = self._places
        is_full = places.taken >= places.limit
        whose = "of all sessions" if is_full else f"that sessions of one client may have, of {places.limit},"
        number = places.limit if is_full else places.share(client)
        message = (
            f"all {number} connections to {self._of} {whose} are in use: end sessions that are not needed, or set"
            f" {self._setting} to a higher number"
        )
        return NoSessionPlaceError(INTERNAL_ERROR, message, {"retryAfter": _RETRY_SECONDS})


# Turns to write to a peer that many clients share, where it does not read as fast as they send.


class SendTurns:
    """Clients take turns to send, so that none waits for more than one message of each other client, and for what the
    transport holds already."""

    def __init__(self) -> None:
        """Create turns that nobody has."""
        self._places = FairPlaces(1)

    async def take(self, client: Hashable, drain: Callable[[], Awaitable[None]]) -> None:
        """Wait for the turn of a client, and until the transport has room. Who has called this sends at once, before
        it waits again: then the turn is that of the next one."""
        await self._places.take(client)
        try:
            await drain()
        except BaseException:
            self._places.give_back(client)
            raise
        asyncio.get_running_loop().call_soon(self._places.give_back, client)
