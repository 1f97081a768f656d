"""The connections to an upstream: one of a session's own, shared ones, and those that stateless requests borrow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ...errors import JSONRPCError, MCPError
from ..translation import Translation
from .link import Link, LinkEvents, upstream_error
from .opening import ClientDetails, Opener

_MAX_LINKS: Final = 16  # Connections of one client that sends requests at the same time.


async def open_link(opener: Opener, client: ClientDetails, events: LinkEvents) -> Link:
    """Return a link with an open connection. Raises JSONRPCError if the upstream cannot be reached."""
    link = Link(events)
    try:
        upstream = await opener.open(client, link.handle)
    except JSONRPCError:
        raise
    except MCPError as error:
        raise upstream_error(error) from error
    link.use(upstream, Translation(client.revision, upstream.revision, opener.losses))
    link.last_used = asyncio.get_running_loop().time()
    return link


class LinkPool:
    """The links of clients with the same owner and the same capabilities.

    A request whose upstream may send messages that belong to it gets a link of its own while it runs, unless the pool
    is for one client only; other requests share the first link.
    """

    def __init__(self, make: Callable[[], asyncio.Future[Link]], is_single: bool) -> None:
        """Create a pool; `make` opens a link. With `is_single`, the pool has one link."""
        self._make = make
        self._is_single = is_single
        self._links: list[Link] = []
        self._opening: asyncio.Future[Link] | None = None
        self._released = asyncio.Event()

    async def acquire(self, exclusive: bool) -> Link:
        """Return an open link, until `release`. Raises JSONRPCError."""
        exclusive = exclusive and not self._is_single
        while True:
            self._links = [link for link in self._links if link.is_open]
            link = next((link for link in self._links if not link.users), None)
            if link is None and not exclusive:
                link = next((link for link in self._links if not link.is_exclusive), None)
            if link is not None:
                link.users += 1
                link.is_exclusive = exclusive
                return link
            if len(self._links) < (1 if self._is_single else _MAX_LINKS):
                await self._open()
            else:
                self._released.clear()
                await self._released.wait()

    async def _open(self) -> None:
        """Open a further link; requests that need one at the same time wait for the same."""
        if self._opening is None:
            self._opening = self._make()
            self._opening.add_done_callback(self._opened)
        await asyncio.shield(self._opening)

    def _opened(self, opening: asyncio.Future[Link]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._links.append(opening.result())

    def release(self, link: Link) -> None:
        """Give a link back."""
        link.users -= 1
        link.last_used = asyncio.get_running_loop().time()
        if not link.users:
            link.is_exclusive = False
        self._released.set()

    def idle(self, since: float) -> list[Link]:
        """Return the links that nothing has used since a time, and remove them."""
        idle = [link for link in self._links if not link.users and link.last_used < since]
        self._links = [link for link in self._links if link not in idle]
        return idle

    @property
    def is_empty(self) -> bool:
        """True if the pool has no links, and opens none."""
        return not self._links and self._opening is None

    async def close(self) -> None:
        """Close all links."""
        if self._opening is not None:
            self._opening.cancel()
        links, self._links = self._links, []
        await asyncio.gather(*(link.close() for link in links))
