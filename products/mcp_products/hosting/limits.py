"""All connections of a server: how many there may be, how long they may wait, and what they may hold."""

from __future__ import annotations

import asyncio
import sys
from functools import cached_property
from typing import Final, Protocol, cast

from mcp_runtime.aio.tasks import TaskStarter, task_starter
from mcp_runtime.http.clients import BufferedBytes, ClientKey, client_key
from mcp_runtime.transports.http_server.limits import HTTPLimits

from .held_responses import WorkInTurn

_MAX_CONNECTIONS: Final = 10_000  # Connections at the same time, if the process may have so many files open.
_FILES: Final = 1024  # Files that a process may have open where the system does not tell.
_TICKS: Final = 10  # How often connections are looked at within the shortest deadline.
_MAX_TICK: Final = 1.0  # Seconds.
_LOOPBACK: Final = ("127.0.0.1", "::1", None)  # None is a Unix socket. A proxy on this machine has such an address.


class Observed(Protocol):
    """A connection, as its server looks at it."""

    client_key: ClientKey
    is_local: bool  # Its address may be that of a proxy.

    def is_idle(self) -> bool:
        """Return True if no request has begun."""
        ...

    def look(self, now: float) -> None:
        """End the connection if it is late."""

    def abort(self) -> None:
        """Cut the connection, and drop what is not sent."""


class ServerConnections:
    """The connections of one server. One timer serves all of them."""

    def __init__(self, limits: HTTPLimits) -> None:
        """Create the connections, of which there are none yet."""
        self.limits = limits
        self.max_connections = limits.max_connections or default_max_connections()
        self._open: dict[Observed, None] = {}  # In the order in which they were opened.
        self._counts: dict[ClientKey, int] = {}
        self._unsent = BufferedBytes(limits.max_buffered)
        shortest = min(limits.head_timeout, limits.body_timeout, limits.write_timeout)
        self._tick_seconds = min(shortest / _TICKS, _MAX_TICK)
        self._timer: asyncio.TimerHandle | None = None
        self.streams = WorkInTurn()  # What sends on streams that have waited.

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Observed) -> bool:
        """Add a connection that was opened; return False if it has to be refused."""
        key = connection.client_key
        if self._counts.get(key, 0) >= self._share(connection):
            return False
        if len(self._open) >= self.max_connections and not self._make_room():
            return False
        self._open[connection] = None
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._tick_seconds, self._look)
        return True

    def remove(self, connection: Observed) -> None:
        """Remove a connection that has ended, or is observed no longer."""
        if connection not in self._open:
            return
        del self._open[connection]
        self.hold(connection, 0)
        key = connection.client_key
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]

    def hold(self, connection: Observed, size: int) -> None:
        """Note how many bytes of responses a connection holds; if all hold too many, cut those that hold most."""
        self._unsent.set(connection, connection.client_key, size)
        while (excess := self._unsent.excess()) is not None:
            for holder in self._open:
                if holder is excess:
                    self._unsent.set(holder, holder.client_key, 0)
                    holder.abort()
                    break

    @cached_property
    def starter(self) -> TaskStarter:
        """What begins to serve requests at once."""
        return task_starter(asyncio.get_running_loop())

    async def close(self) -> None:
        """End what begins requests."""
        await self.starter.close()

    def _share(self, connection: Observed) -> int:
        """Return how many connections the address of this one may have: half of those that others leave."""
        if self.limits.max_connections_per_address is not None:
            return self.limits.max_connections_per_address
        if connection.is_local:
            return self.max_connections
        others = len(self._open) - self._counts.get(connection.client_key, 0)
        return max((self.max_connections - others) // 2, 1)

    def _make_room(self) -> bool:
        """Cut the oldest connection without a request of the address that has most; return False if there is none."""
        counts: dict[ClientKey, int] = {}
        oldest: dict[ClientKey, Observed] = {}
        for connection in self._open:
            counts[connection.client_key] = counts.get(connection.client_key, 0) + 1
            if connection.client_key not in oldest and connection.is_idle():
                oldest[connection.client_key] = connection
        if not oldest:
            return False
        connection = oldest[max(oldest, key=counts.__getitem__)]
        self.remove(connection)
        connection.abort()
        return True

    def _look(self) -> None:
        """Look at all connections, and again after a while if there are any."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._open):
            connection.look(now)
        self._timer = loop.call_later(self._tick_seconds, self._look) if self._open else None


def key_of_peer(peer: object) -> tuple[ClientKey, bool]:
    """Return what identifies the client of a socket, and whether its address is that of this machine."""
    address = cast("str | None", peer[0]) if isinstance(peer, tuple) else None
    return client_key(None, address), address in _LOOPBACK


def default_max_connections() -> int:
    """Return nine tenths of the files that this process may have open, and at most 10,000."""
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return min(max(files * 9 // 10, 1), _MAX_CONNECTIONS)
