"""The connections to an upstream: those that requests without a session borrow, and that of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, NamedTuple

from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError
from mcp_runtime.http.clients import ClientKey
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR

from .connection import Downstream, UpstreamConnection
from .fair_pool import ClientConnections, Lease, NoConnectionError
from .opening import ClientDetails, Opener, UpstreamNames
from .places import SessionPlaces
from .translation import Translation

MAX_CONNECTIONS: Final = 16


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
