"""A bounded number of connections that the requests of many clients use, alone or together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from contextvars import Context
from typing import Any, Final, Generic, TypeVar

from mcp_runtime.aio.shared_work import joined

# A bounded number of places that clients share: none of them takes all, and those that wait take turns.

_PART: Final = 2  # A client may have this part of the places that other clients leave: a half.
C = TypeVar("C")
WAIT_SECONDS: Final = 60.0  # Seconds that a request waits for a connection.
_LOOK_SECONDS: Final = 0.5  # How often `while_waiting` is called meanwhile.


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


class NoConnectionError(Exception):
    """No connection came free in time. `has_share` is True if the client has as many as it may have."""

    def __init__(self, has_share: bool, limit: int) -> None:
        super().__init__("all connections were in use")
        self.has_share = has_share
        self.limit = limit

    def describe(self, of: str, setting: str) -> str:
        """Return a message for the client: what it waited for, and which setting to change."""
        share = f"that one client may have, of {self.limit}," if self.has_share else ""
        connections = "all connections" if self.has_share else f"all {self.limit} connections"
        text = f"{connections} of {of} {share}".rstrip()
        return f"{text} were in use for {WAIT_SECONDS:g} s: set {setting} to a higher number"


class Lease(Generic[C]):
    """A connection, its key, and the number of requests that use it."""

    __slots__ = ("connection", "key", "users", "client", "idle_since")

    def __init__(self, connection: C, key: Hashable) -> None:
        self.connection = connection
        self.key = key
        self.users = 0
        self.client: Hashable = None  # The client whose place it has, while it is used.
        self.idle_since = 0.0


class _Opening(Generic[C]):
    """A connection that is being opened, and the number of requests that wait for it."""

    def __init__(self, key: Hashable, task: asyncio.Task[Lease[C]]) -> None:
        self.key = key
        self.task = task
        self.waiting = 0


class ClientConnections(Generic[C]):
    """At most so many connections for the requests of all clients.

    A request uses a connection with its key: one that nobody uses, one that it may share, or a new one, for which the
    one that was unused longest is closed. A connection that is used has a place of the client that used it first, and
    clients share the places, see `FairPlaces`. It is opened in a task of its own: a request that is cancelled leaves it
    to the next one.
    """

    def __init__(
        self,
        limit: int,
        close: Callable[[C], asyncio.Task[None] | None],
        is_open: Callable[[C], bool],
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a pool without connections.

        Args:
            limit: The number of connections.
            close: Closes one in a task; None if it is closed already.
            is_open: Returns whether one can be used.
            while_waiting: Called from time to time while requests wait, to end what holds a connection for nothing.
        """
        self._close = close
        self._is_open = is_open
        self._while_waiting = while_waiting
        self.places = FairPlaces(limit)
        self._leases: list[Lease[C]] = []
        self._openings: list[_Opening[C]] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._sharing: dict[Hashable, list[asyncio.Future[None]]] = {}  # Requests that wait, and would share one.

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def acquire(
        self,
        client: Hashable,
        key: Hashable,
        open: Callable[[], Coroutine[Any, Any, C]],
        may_use: Callable[[C, int], bool],
        *,
        alone: bool = False,
    ) -> Lease[C]:
        """Return a connection for a request, until `release`. Raises what `open` raises, and NoConnectionError.

        Args:
            client: Who sends the request.
            key: What the connection has to be of.
            open: Opens a connection; its context and its task are of no request.
            may_use: Returns whether the request may use a connection that so many others use.
            alone: Whether it will be alone on its connection, so that it does not wait for one that others open.
        """
        until = asyncio.get_running_loop().time() + WAIT_SECONDS
        while True:
            if (lease := self._joinable(key, may_use)) is not None:
                return self._use(lease)
            if not alone and (opening := self._opening(key, alone)) is not None:
                await self._opened(opening)  # It has the place of another request, which will share it.
            elif await self._has_place(client, key, alone, until):
                break
        try:
            while True:
                if (lease := self._joinable(key, may_use)) is not None:
                    self.places.give_back(client)
                    return self._use(lease)
                if (lease := self._unused(key, may_use)) is not None:
                    lease.client = client
                    return self._use(lease)
                await self._opened(self._opening(key, alone) or await self._begin(key, open))
        except BaseException:
            self.places.give_back(client)
            raise

    def release(self, lease: Lease[C], *, reusable: bool = True) -> None:
        """Give a connection back. One that is not reusable is closed when nobody uses it; then its place is free."""
        lease.users -= 1
        if lease.users:
            return
        client = lease.client
        lease.client = None
        lease.idle_since = asyncio.get_running_loop().time()
        closing = None if reusable and self._is_open(lease.connection) else self.discard(lease)
        if closing is None:
            self.places.give_back(client)
        else:
            closing.add_done_callback(lambda _: self.places.give_back(client))

    def _joinable(self, key: Hashable, may_use: Callable[[C, int], bool]) -> Lease[C] | None:
        return next((item for item in self._of(key) if item.users and may_use(item.connection, item.users)), None)

    def _unused(self, key: Hashable, may_use: Callable[[C, int], bool]) -> Lease[C] | None:
        return next((item for item in reversed(self._of(key)) if not item.users and may_use(item.connection, 0)), None)

    def _of(self, key: Hashable) -> list[Lease[C]]:
        """Return the connections with a key; those that have ended are forgotten."""
        for lease in [item for item in self._leases if not self._is_open(item.connection)]:
            self.discard(lease)
        return [item for item in self._leases if item.key == key]

    def _use(self, lease: Lease[C]) -> Lease[C]:
        lease.users += 1
        self._wake(lease.key)
        return lease

    async def _has_place(self, client: Hashable, key: Hashable, alone: bool, until: float) -> bool:
        """Wait for a place; return False if there is a connection now that the request may share."""
        entering = self.places.enter(client)
        if entering.done():
            return True
        shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not alone:
            self._sharing.setdefault(key, []).append(shared)
        try:
            await self._first_of(entering, shared, until)
            has_place = entering.done()
        except BaseException:
            self.places.leave(client, entering)
            raise
        finally:
            if not alone and not shared.done():
                self._sharing[key].remove(shared)
                if not self._sharing[key]:
                    del self._sharing[key]
        if not has_place:
            self.places.leave(client, entering)
        return has_place

    async def _first_of(self, entering: asyncio.Future[None], shared: asyncio.Future[None], until: float) -> None:
        loop = asyncio.get_running_loop()
        while (seconds := until - loop.time()) > 0:
            done, _ = await asyncio.wait(
                [entering, shared], timeout=min(seconds, _LOOK_SECONDS), return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                return
            self._while_waiting()
        raise NoConnectionError(self.places.taken < self.places.limit, self.places.limit)

    def _wake(self, key: Hashable) -> None:
        """Let the requests that wait for a place look at a connection that they may share."""
        for shared in self._sharing.pop(key, ()):
            shared.set_result(None)

    # ---- opening and closing -----------------------------------------------------------------------------------------

    def _opening(self, key: Hashable, alone: bool) -> _Opening[C] | None:
        """Return a connection that is being opened, and that a request may wait for: alone, one that no other does."""
        openings = [item for item in self._openings if item.key == key and not item.task.done()]
        return next((item for item in openings if not (alone and item.waiting)), None)

    def is_opening(self, key: Hashable) -> bool:
        """Return True while a connection with a key is opened."""
        return self._opening(key, False) is not None

    async def _begin(self, key: Hashable, open: Callable[[], Coroutine[Any, Any, C]]) -> _Opening[C]:
        """Begin to open a connection, as soon as there is room for it."""
        while len(self._leases) + len(self._openings) + len(self._closing) >= self.places.limit:
            unused = [item for item in self._leases if not item.users]
            if unused:
                self.discard(min(unused, key=lambda item: item.idle_since))
            pending = [*self._closing, *(item.task for item in self._openings)]
            if not (unused or pending):
                break
            if not pending:
                continue
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if (other := self._opening(key, True)) is not None:
                return other
        task = asyncio.get_running_loop().create_task(self._open(key, open), context=Context())
        opening = _Opening(key, task)
        self._openings.append(opening)
        self._wake(key)
        task.add_done_callback(lambda _: self._ended(opening))
        return opening

    async def _open(self, key: Hashable, open: Callable[[], Coroutine[Any, Any, C]]) -> Lease[C]:
        lease = Lease(await open(), key)
        lease.idle_since = asyncio.get_running_loop().time()
        self._leases.append(lease)
        return lease

    async def _opened(self, opening: _Opening[C]) -> None:
        """Wait until a connection is open. Raises what opening it raises."""
        opening.waiting += 1
        try:
            await joined(opening.task, "the connection")
        finally:
            opening.waiting -= 1

    def _ended(self, opening: _Opening[C]) -> None:
        self._openings.remove(opening)
        if not opening.task.cancelled():
            opening.task.exception()  # Those that wait have it; without one left, it is of no interest.

    def discard(self, lease: Lease[C]) -> asyncio.Task[None] | None:
        """Forget a connection, and close it; return the task that closes it."""
        if lease in self._leases:
            self._leases.remove(lease)
        closing = self._close(lease.connection)
        if closing is not None and not closing.done():
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        return closing

    def close_idle(self, since: float, keep: Callable[[Hashable], bool] | None = None) -> None:
        """Close the connections that nobody has used since a time of the event loop, but those with a key that `keep`
        accepts."""
        for lease in [item for item in self._leases if not item.users and item.idle_since <= since]:
            if keep is None or not keep(lease.key):
                self.discard(lease)

    async def close(self) -> None:
        """End what is being opened, and close all connections."""
        openings = [item.task for item in self._openings]
        for task in openings:
            task.cancel()
        if openings:
            await asyncio.wait(openings)
        for lease in list(self._leases):
            self.discard(lease)
        if self._closing:
            await asyncio.wait(list(self._closing))
