"""The connections to an upstream: one of a session's own, shared ones, and those that stateless requests borrow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Final

from ...errors import JSONRPCError, MCPError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ..translation.revision_translation import Translation
from .link import Link, LinkEvents, upstream_error
from .opening import ClientDetails, Opener

MAX_LINKS: Final = 16
_MAX_POOLS: Final = 1000  # Pools after which the empty ones are forgotten: clients choose their capabilities.
_WAIT_SECONDS: Final = 60.0  # Seconds that a request waits for a link.
_LOOK_SECONDS: Final = 0.5  # How often a request that waits looks for calls that wait for their clients.


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


class LinkPools:
    """The links of all clients without sessions: a bounded number, by owner and capabilities."""

    def __init__(self, limit: int, close: Callable[[Link], asyncio.Task[None]]) -> None:
        """Create pools without links; `close` closes a link in a task."""
        self._limit, self._close = limit, close
        self._pools: dict[Hashable, LinkPool] = {}
        self._closing = 0
        self._released = asyncio.Event()
        self.end_waiting: Callable[[], None] = lambda: None
        """Called while requests wait for a link, to end a call whose client does not answer."""

    def of(self, key: Hashable, make: Callable[[], asyncio.Future[Link]], is_single: bool) -> LinkPool:
        """Return the links of an owner with some capabilities; `make` opens one."""
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= _MAX_POOLS:
                self._pools = {key: pool for key, pool in self._pools.items() if not pool.is_empty}
            pool = self._pools[key] = LinkPool(self, make, is_single)
        return pool

    async def has_place(self) -> bool:
        """Return True if a pool may open a link, instead of one that nothing uses; else wait for a release.

        Raises JSONRPCError after a time without a release.
        """
        if self._closing + sum(pool.size for pool in self._pools.values()) < self._limit:
            return True
        unused = [(link.last_used, id(link), link) for pool in self._pools.values() for link in pool.unused]
        if unused:
            await asyncio.wait([self.discard(min(unused)[2])])
            return False
        self._released.clear()
        for _ in range(round(_WAIT_SECONDS / _LOOK_SECONDS)):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._released.wait()
                return False
            self.end_waiting()
        raise JSONRPCError(
            INTERNAL_ERROR,
            f"all {self._limit} connections of the bridge were in use for {_WAIT_SECONDS:g} s: set connections to a"
            " higher number",
        )

    def released(self) -> None:
        """Let requests that wait look for a link again."""
        self._released.set()

    def discard(self, link: Link) -> asyncio.Task[None]:
        """Close a link; its place is free when it is closed."""
        for pool in self._pools.values():
            pool.remove(link)
        self._closing += 1
        closing = self._close(link)
        closing.add_done_callback(self._closed)
        return closing

    def _closed(self, _: object) -> None:
        self._closing -= 1
        self.released()

    def close_idle(self, since: float) -> None:
        """Close the links that nothing has used since a time."""
        for key, pool in list(self._pools.items()):
            for link in [link for link in pool.unused if link.last_used < since]:
                self.discard(link)
            if pool.is_empty:
                del self._pools[key]

    async def close(self) -> None:
        """Close all links."""
        for pool in self._pools.values():
            await pool.close()


class LinkPool:
    """The links of clients with the same owner and the same capabilities.

    What an upstream sends besides results names no request. So a request that such messages may belong to holds its
    link: no other one that they may belong to runs over it. Where `is_single`, the pool has one client, and one link.
    """

    def __init__(self, pools: LinkPools, make: Callable[[], asyncio.Future[Link]], is_single: bool) -> None:
        """Create one of some pools; `make` opens a link."""
        self._pools, self._make = pools, make
        self._is_single = is_single
        self._links: list[Link] = []
        self._opening: asyncio.Future[Link] | None = None
        self._waiting = 0

    @property
    def size(self) -> int:
        """The number of links that are open, or are being opened."""
        return sum(link.is_open for link in self._links) + (self._opening is not None)

    @property
    def is_empty(self) -> bool:
        """True if the pool has no links, and no request needs one."""
        return not self.size and not self._waiting

    @property
    def unused(self) -> list[Link]:
        """The open links that no request and no subscription uses."""
        return [link for link in self._links if link.is_open and not link.users + link.listeners]

    def remove(self, link: Link) -> None:
        """Forget a link."""
        self._links = [item for item in self._links if item is not link]

    async def acquire(self, gets_messages: Callable[[Link], bool]) -> Link:
        """Return an open link for a request, until `release`. Raises JSONRPCError.

        `gets_messages` returns whether the upstream of a link may send messages that belong to the request.
        """
        while True:
            self._links = [link for link in self._links if link.is_open]
            for link in self._links:
                holds = gets_messages(link) and not self._is_single
                is_stateful = not link.translation.up_is_stateless
                if self._is_single or not (
                    (link.is_held and (holds or is_stateful))
                    or (holds and (link.is_abandoned or (is_stateful and link.users)))
                ):
                    link.users += 1
                    link.is_held = link.is_held or holds
                    return link
            await self._open()

    async def first(self) -> Link:
        """Return the first open link, for a subscription: it gets what its filter includes."""
        self._links = [link for link in self._links if link.is_open]
        while not self._links:
            await self._open()
        self._links[0].listeners += 1
        return self._links[0]

    async def _open(self) -> None:
        """Open a further link if there is a place; requests that need one at the same time wait for the same."""
        if self._opening is None and not self._is_single:
            self._waiting += 1
            try:
                if not await self._pools.has_place():
                    return
            finally:
                self._waiting -= 1
        if self._opening is None:
            self._opening = self._make()
            self._opening.add_done_callback(self._opened)
        await asyncio.shield(self._opening)

    def _opened(self, opening: asyncio.Future[Link]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._links.append(opening.result())

    def release(self, link: Link, held: bool = False, listened: bool = False) -> None:
        """Give a link back; `held` says that the request held it, `listened` that it was a subscription."""
        link.touch()
        if listened:
            link.listeners -= 1
        else:
            link.users -= 1
            link.is_held = link.is_held and not held
        if link.is_abandoned and not link.users + link.listeners and link in self._links:
            self._pools.discard(link)
        self._pools.released()

    async def close(self) -> None:
        """Close all links."""
        if self._opening is not None:
            self._opening.cancel()
        links, self._links = self._links, []
        await asyncio.gather(*(link.close() for link in links))
