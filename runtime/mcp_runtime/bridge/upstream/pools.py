"""The connections to an upstream that requests without a session borrow, and how any connection is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final

from ...aio.connection_pool import ClientConnections, Lease, NoConnectionError
from ...errors import ConnectionClosedError, JSONRPCError, MCPError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ..translation.revision_translation import Translation
from .link import Link, LinkEvents, upstream_error
from .opening import ClientDetails, Opener

MAX_LINKS: Final = 16


async def open_link(opener: Opener, client: ClientDetails, events: LinkEvents, owner: str = "") -> Link:
    """Return a link with an open connection. Raises JSONRPCError if the upstream cannot be reached."""
    link = Link(events, owner)
    try:
        upstream = await opener.open(client, link)
    except JSONRPCError:
        raise
    except MCPError as error:
        raise upstream_error(error) from error
    link.use(upstream, Translation(client.revision, upstream.revision, opener.losses))
    link.touch()
    return link


class Borrower:
    """Who sends a request without a session.

    `client` has a share of the links. Only requests with the same `key` use the same link: those of one owner with the
    same capabilities. `details` are what the upstream is to know of them.
    """

    __slots__ = ("client", "key", "details", "owner")

    def __init__(self, client: Hashable, key: Hashable, details: ClientDetails, owner: str) -> None:
        self.client = client
        self.key = key
        self.details = details
        self.owner = owner


class LinkPool:
    """The links of all clients without sessions: a bounded number.

    What an upstream sends besides results names no request. So a request that such messages may belong to holds its
    link: no other one that they may belong to runs over it. Where `is_single`, there is one client, and one link.
    """

    def __init__(
        self,
        limit: int,
        open: Callable[[ClientDetails, LinkEvents, str], Coroutine[Any, Any, Link]],
        close: Callable[[Link], asyncio.Task[None]],
        is_single: bool,
    ) -> None:
        """Create a pool without links; `open` opens a link for an owner, and `close` closes one in a task."""
        self._open = open
        self._is_single = is_single
        self._up_is_stateless: bool | None = None  # As far as it is known.
        self._links: ClientConnections[Link] = ClientConnections(limit, close, lambda link: link.is_open, self._look)
        self._leases: dict[Link, Lease[Link]] = {}
        self.end_waiting: list[Callable[[], None]] = []
        """Called while requests wait for a link, to end calls whose clients do not answer."""

    def _look(self) -> None:
        for end in self.end_waiting:
            end()

    async def acquire(self, borrower: Borrower, events: LinkEvents, gets_messages: Callable[[bool], bool]) -> Link:
        """Return an open link for a request, until `release`. Raises JSONRPCError.

        `gets_messages` returns whether an upstream may send messages that belong to the request; it gets whether the
        upstream is stateless.
        """

        def holds(link: Link) -> bool:
            return gets_messages(link.translation.up_is_stateless) and not self._is_single

        def may_use(link: Link, _: int) -> bool:
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

    async def first(self, borrower: Borrower, events: LinkEvents) -> Link:
        """Return an open link for a subscription: it gets what its filter includes."""
        link = await self._leased(borrower, events, lambda link, _: True, False)
        link.listeners += 1
        return link

    async def _leased(
        self, borrower: Borrower, events: LinkEvents, may_use: Callable[[Link, int], bool], alone: bool
    ) -> Link:
        async def open() -> Link:
            link = await self._open(borrower.details, events, borrower.owner)
            self._up_is_stateless = link.translation.up_is_stateless
            return link

        client = None if self._is_single else borrower.client
        try:
            lease = await self._links.acquire(client, borrower.key, open, may_use, alone=alone)
        except NoConnectionError as error:
            raise JSONRPCError(INTERNAL_ERROR, error.describe("the bridge", "--connections")) from None
        except ConnectionClosedError as error:
            raise upstream_error(error) from None
        link = lease.connection
        self._leases[link] = lease
        return link

    def release(self, link: Link, held: bool = False, listened: bool = False) -> None:
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

    def close_idle(self, since: float) -> None:
        """Close the links that nothing has used since a time."""
        self._links.close_idle(since)

    async def close(self) -> None:
        """Close all links."""
        await self._links.close()
