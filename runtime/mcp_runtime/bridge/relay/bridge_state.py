"""What the relays of one bridge share: the upstream, its settings, its links and its losses."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ...aio.fan_out import FanOut
from ...http.session_places import HTTP_CONNECTIONS, PROCESSES, SessionPlaces
from ..translation.losses import LossCounter
from ..upstream.bridge_targets import Connector, Target
from ..upstream.link import Link, LinkEvents
from ..upstream.opening import ClientDetails, Opener
from ..upstream.pools import MAX_LINKS, LinkPool, open_link

_SWEEPS: Final = 4  # How often links are looked at in the time that they may be idle.


class SharedConnections(Protocol):
    """Connections that many sessions share."""

    async def join(self, session: Any, client: ClientDetails) -> Link:
        """Return the link of a session."""
        ...

    def leave(self, session: Any) -> None:
        """Forget a session that has ended."""
        ...

    def is_subscribed(self, link: Link, uri: str) -> bool:
        """Return True if a session that uses the same connection has subscribed to a resource."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(slots=True)
class BridgeSettings:
    """The settings of a bridge.

    `timeout` is the seconds that a call may take, None without limit. `shared` is the number of connections that
    sessions share, 0 if each has its own. `idle` is the seconds after which an unused connection ends. `is_single` is
    True if there is one client. `connections` is the number of connections of requests without sessions.
    `session_connections` is the number of those that sessions have for themselves, None for the default of the target.
    """

    timeout: float | None = None
    shared: int = 0
    idle: float | None = None
    is_single: bool = False
    connections: int = MAX_LINKS
    session_connections: int | None = None


class BridgeState:
    """The upstream of a bridge, and its connections."""

    def __init__(self, target: Target, package: str, settings: BridgeSettings) -> None:
        """Create the state; `package` is the generated package with the revisions. Raises LocalError."""
        self.settings = settings
        self.losses = LossCounter()
        self.opener = Opener(Connector(target), package, self.losses)
        self.pool = LinkPool(settings.connections, self._open, self.close_later, settings.is_single)
        default = PROCESSES if self.opener.connector.is_process else HTTP_CONNECTIONS
        self.session_places = SessionPlaces(
            settings.session_connections or default, "the server of the bridge", "--session-connections"
        )
        self.links: set[Link] = set()
        self.fan_out = FanOut()
        self.shared: SharedConnections | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to end idle connections."""
        if self.settings.idle is not None:
            self._sweeper = asyncio.create_task(self._sweep(self.settings.idle))

    async def _open(self, client: ClientDetails, events: LinkEvents, owner: str) -> Link:
        """Return a link that many clients use."""
        link = await open_link(self.opener, client, events, owner)
        link.fan_out = None if self.settings.is_single else self.fan_out
        return link

    async def _sweep(self, idle: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(idle / _SWEEPS)
            since = loop.time() - idle
            self.pool.close_idle(since)
            for link in [link for link in self.links if link.last_used < since and not link.running]:
                if not link.users:
                    self.close_later(link)

    def close_later(self, link: Link) -> asyncio.Task[None]:
        """Close a link in a task of its own."""
        self.links.discard(link)
        task = asyncio.get_running_loop().create_task(link.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def close(self) -> None:
        """Close all connections, and wait until all processes have ended."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeper
        await self.pool.close()
        if self.shared is not None:
            await self.shared.close()
        for link in list(self.links):
            self.close_later(link)
        if self._closing:
            await asyncio.wait(list(self._closing))
