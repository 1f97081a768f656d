"""The connections to an upstream: those that requests without a session borrow, and that of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextvars import Context
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mcp_runtime.aio.shared_work import SharedWork, joined
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError
from mcp_runtime.http.clients import ClientKey
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR

from .connection import Downstream, UpstreamConnection
from .opening import ClientDetails, Opener, UpstreamNames
from .places import FairPlaces, SessionPlaces
from .translation import Translation

MAX_CONNECTIONS: Final = 16
WAIT_SECONDS: Final = 60.0  # Seconds that a request waits for a connection.
_LOOK_SECONDS: Final = 0.5  # How often `while_waiting` is called meanwhile.
C = TypeVar("C")


async def open_connection(
    opener: Opener, client: ClientDetails, downstream: Downstream, owner: str = ""
) -> UpstreamConnection:
    """Return an open connection. Raises JSONRPCError if the upstream cannot be reached."""
    connection = UpstreamConnection(downstream, owner)
    try:
        upstream = await opener.open(client, connection)
    except JSONRPCError:
        raise
    except (MCPError, OSError) as error:
        raise opener.names.failure(error, was_open=False) from error
    connection.use(upstream, Translation(client.revision, upstream.revision, opener.losses))
    connection.touch()
    return connection


class SessionConnection:
    """The connection that one session has for itself: opened when it is first needed, and again when it has ended."""

    def __init__(self, open: Callable[[], Coroutine[Any, Any, UpstreamConnection]], places: SessionPlaces) -> None:
        """Create a connection that is not open; `open` opens it, which takes one of the places."""
        self._open = open
        self._places = places
        self._connection: UpstreamConnection | None = None
        self._opening: SharedWork[UpstreamConnection] = SharedWork("the connection to the upstream")

    @property
    def present(self) -> UpstreamConnection | None:
        """The connection, if it is open."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    @property
    def is_opening(self) -> bool:
        """True while it opens."""
        return self._opening.is_running

    async def get(self, client: Callable[[], ClientKey | None]) -> UpstreamConnection:
        """Return the open connection. Raises JSONRPCError, also if the client of the session has too many.

        The request that happens to open it may be cancelled: others go on to wait.
        """
        if (connection := self.present) is not None:
            return connection
        key = client()
        return await self._opening.run(lambda: self._opened(key))

    async def _opened(self, client: ClientKey | None) -> UpstreamConnection:
        if self._connection is not None:
            await self._connection.close()  # It gives its place back.
        give_back = self._places.take(client)
        try:
            connection = self._connection = await self._open()
        except BaseException:
            give_back()
            raise
        connection.give_place_back = give_back
        return connection

    def end(self) -> UpstreamConnection | None:
        """Open it no more, and return what is left to close."""
        self._opening.cancel()
        connection = self._connection
        self._connection = None
        return connection


class Borrower(NamedTuple):
    """Who sends a request without a session.

    `client` has a share of the links. Only requests with the same `key` use the same link: those of one owner with the
    same capabilities. `details` are what the upstream is to know of them.
    """

    client: Hashable
    key: Hashable
    details: ClientDetails
    owner: str


class Pool:
    """The links of all clients without sessions: a bounded number.

    What an upstream sends besides results names no request. So a request that such messages may belong to holds its
    link: no other one that they may belong to runs over it. Where `is_single`, there is one client, and one link.
    """

    def __init__(
        self,
        limit: int,
        open: Callable[[ClientDetails, Downstream, str], Coroutine[Any, Any, UpstreamConnection]],
        close: Callable[[UpstreamConnection], asyncio.Task[None]],
        names: UpstreamNames,
        is_single: bool = False,
    ) -> None:
        """Create a pool without connections.

        Args:
            limit: The number of connections.
            open: Opens one for an owner.
            close: Closes one in a task.
            names: How errors name the upstream.
            is_single: Whether there is one client.
        """
        self._open = open
        self._names = names
        self._is_single = is_single
        self._up_is_stateless: bool | None = None  # As far as it is known.
        self._links: ClientConnections[UpstreamConnection] = ClientConnections(
            limit, close, lambda link: link.is_open, self._look
        )
        self._leases: dict[UpstreamConnection, Lease[UpstreamConnection]] = {}
        self.end_waiting: list[Callable[[], None]] = []
        """Called while requests wait for a link, to end calls whose clients do not answer."""

    def _look(self) -> None:
        for end in self.end_waiting:
            end()

    async def acquire(
        self, borrower: Borrower, events: Downstream, gets_messages: Callable[[bool], bool]
    ) -> UpstreamConnection:
        """Return an open link for a request, until `release`. Raises JSONRPCError.

        `gets_messages` returns whether an upstream may send messages that belong to the request; it gets whether the
        upstream is stateless.
        """

        def holds(link: UpstreamConnection) -> bool:
            return gets_messages(link.translation.up_is_stateless) and not self._is_single

        def may_use(link: UpstreamConnection, _: int) -> bool:
            is_stateful = not link.translation.up_is_stateless
            return self._is_single or not (
                (link.is_held and (holds(link) or is_stateful))
                or (holds(link) and (link.is_abandoned or (is_stateful and bool(link.users))))
            )

        known = self._up_is_stateless
        alone = known is not None and gets_messages(known) and not self._is_single
        link = await self._leased(borrower, events, may_use, alone)
        link.users += 1
        link.is_held = link.is_held or holds(link)
        return link

    async def first(self, borrower: Borrower, events: Downstream) -> UpstreamConnection:
        """Return an open link for a subscription: it gets what its filter includes."""
        link = await self._leased(borrower, events, lambda link, _: True, False)
        link.listeners += 1
        return link

    async def _leased(
        self, borrower: Borrower, events: Downstream, may_use: Callable[[UpstreamConnection, int], bool], alone: bool
    ) -> UpstreamConnection:
        async def open() -> UpstreamConnection:
            link = await self._open(borrower.details, events, borrower.owner)
            self._up_is_stateless = link.translation.up_is_stateless
            return link

        client = None if self._is_single else borrower.client
        try:
            lease = await self._links.acquire(client, borrower.key, open, may_use, alone=alone)
        except NoConnectionError as error:
            text = error.describe(self._names.connections_of, self._names.setting)
            raise JSONRPCError(INTERNAL_ERROR, text) from None
        except ConnectionClosedError as error:
            raise self._names.failure(error) from None
        link = lease.connection
        self._leases[link] = lease
        return link

    def release(self, link: UpstreamConnection, held: bool = False, listened: bool = False) -> None:
        """Give a link back; `held` says that the request held it, `listened` that it was a subscription."""
        link.touch()
        if listened:
            link.listeners -= 1
        else:
            link.users -= 1
            link.is_held = link.is_held and not held
        lease = self._leases[link]
        if not link.users + link.listeners:
            del self._leases[link]
        self._links.release(lease, reusable=not link.is_abandoned)

    def is_opening(self, borrower: Borrower) -> bool:
        """Return True while a connection opens that a request may use."""
        return self._links.is_opening(borrower.key)

    def close_idle(self, since: float, keep: Callable[[Hashable], bool] | None = None) -> None:
        """Close the links that nothing has used since a time, but those with a key that `keep` accepts."""
        self._links.close_idle(since, keep)

    async def close(self) -> None:
        """Close all links."""
        await self._links.close()


# A bounded number of connections that the requests of many clients use, alone or together.


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
