"""The connections to an upstream: one of a session's own, shared ones, and those that stateless requests borrow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ...errors import JSONRPCError, MCPError
from ..translation.revision_translation import Translation
from .link import Link, LinkEvents, upstream_error
from .opening import ClientDetails, Opener

_MAX_LINKS: Final = 16  # Connections of one client that sends requests at the same time.


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


class LinkPool:
    """The links of clients with the same owner and the same capabilities.

    What an upstream sends besides results names no request. So a request that such messages may belong to holds its
    link: no other one that they may belong to runs over it. Where `is_single`, the pool has one client, and one link.
    """

    def __init__(self, make: Callable[[], asyncio.Future[Link]], is_single: bool) -> None:
        """Create a pool; `make` opens a link."""
        self._make = make
        self._is_single = is_single
        self._links: list[Link] = []
        self._opening: asyncio.Future[Link] | None = None
        self._released = asyncio.Event()

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
                    (link.is_held and (holds or is_stateful)) or (holds and is_stateful and link.users)
                ):
                    link.users += 1
                    link.is_held = link.is_held or holds
                    return link
            if len(self._links) < (1 if self._is_single else _MAX_LINKS):
                await self._open()
            else:
                self._released.clear()
                await self._released.wait()

    async def first(self) -> Link:
        """Return the first open link, for a subscription: it gets what its filter includes."""
        self._links = [link for link in self._links if link.is_open]
        while not self._links:
            await self._open()
        self._links[0].listeners += 1
        return self._links[0]

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

    def release(self, link: Link, held: bool = False, listened: bool = False) -> None:
        """Give a link back; `held` says that the request held it, `listened` that it was a subscription."""
        link.touch()
        if listened:
            link.listeners -= 1
        else:
            link.users -= 1
            link.is_held = link.is_held and not held
        self._released.set()

    def idle(self, since: float) -> list[Link]:
        """Return the links that nothing has used since a time, and remove them."""
        idle = [link for link in self._links if not link.users + link.listeners and link.last_used < since]
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
