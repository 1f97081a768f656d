"""Which sessions share connections to a target, and the first connection, which tells whether they may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.endpoint.context import LEVELS
from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.server.context import ConnectionState

from ..upstream.connection import Downstream, UpstreamConnection
from ..upstream.pool import MAX_CONNECTIONS

_KEPT_SECONDS: Final = 60.0  # Seconds after which the first connection is closed if nobody has used it.


class ConnectionRules(NamedTuple):
    """How many connections requests without a session may have, and which connections sessions have.

    With `share`, sessions of one user share connections; None lets them do so where the target is stateless. A
    connection without a request or subscription for `idle` seconds is closed; None keeps that of a session.
    With `own_methods`, which are not of the protocol, a request has its connection for itself: what the target sends by
    them names none.
    """

    limit: int = MAX_CONNECTIONS
    share: bool | None = False
    idle: float | None = None
    own_methods: Collection[str] = ()


class _First(NamedTuple):
    connection: UpstreamConnection
    user: str
    capabilities: Capabilities


class SessionSharing:
    """Tells which sessions share connections.

    A stateless target keeps nothing between requests, so that its requests may be those of several sessions. Whether it
    is stateless is known when the first connection is open, for which all sessions wait that begin at the same time.
    Whoever needs a connection of this kind next takes it.
    """

    def __init__(self, share: bool | None, close: Callable[[UpstreamConnection], asyncio.Task[None]]) -> None:
        """Create rules for no sessions; `close` closes a connection in a task."""
        self.share = share
        self.with_level: WeakSet[ConnectionState] = WeakSet()
        """The sessions whose clients have set a minimum level of log messages, here."""
        self._close = close
        self._keys: WeakKeyDictionary[ConnectionState, Hashable] = WeakKeyDictionary()
        self._learning: SharedWork[None] = SharedWork("the first connection to the target")
        self._first: _First | None = None

    # ---- sessions ----------------------------------------------------------------------------------------------------

    def may_share(self, capabilities: Capabilities, is_stateless: bool) -> bool:
        """Return True if sessions whose clients have these capabilities may share connections to the target.

        A target with a handshake may ask for roots at any time, which are those of one client.
        """
        return self.share is not False and (is_stateless or (self.share is True and "roots" not in capabilities))

    def add(self, state: ConnectionState, key: Hashable) -> bool:
        """Note that a session uses connections with a key; return False if that was noted before."""
        is_new = state not in self._keys
        self._keys[state] = key
        return is_new

    def remove(self, state: ConnectionState) -> bool:
        """Note that a session shares no connections any more; return False if it did not."""
        return self._keys.pop(state, None) is not None

    def is_used(self, key: Hashable) -> bool:
        """Return True while there is a session that uses connections with a key."""
        return key in self._keys.values()

    def has_set_level(self, state: ConnectionState) -> bool:
        """Return True if the client of a session has set a level; at another worker, another one than the lowest."""
        return state in self.with_level or state.log_level != LEVELS[0]

    # ---- the first connection ----------------------------------------------------------------------------------------

    @property
    def is_learning(self) -> bool:
        """True while the first connection opens."""
        return self._learning.is_running

    async def learn(
        self, open: Callable[[], Coroutine[Any, Any, UpstreamConnection]], user: str, capabilities: Capabilities
    ) -> None:
        """Open the first connection, for a user and with these capabilities, unless it is being opened. Raises what
        `open` raises, and ConnectionClosedError."""

        async def opened() -> None:
            self._first = _First(await open(), user, capabilities)
            asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._drop, self._first)

        await self._learning.run(opened)

    def take(self, downstream: Downstream, user: str, capabilities: Capabilities) -> UpstreamConnection | None:
        """Return the first connection, if nobody has it yet and it may be used for this.

        That of a target with a handshake belongs to the session that it was opened for: its requests have gone there.
        """
        first = self._first
        if first is None or not first.connection.is_open:
            return None
        connection = first.connection
        is_alike = (first.user, first.capabilities) == (user, capabilities)
        if connection.downstream is not downstream and not (is_alike and connection.translation.up_is_stateless):
            return None
        self._first = None
        connection.downstream = downstream
        return connection

    def _drop(self, first: _First) -> None:
        if self._first is first:
            self._first = None
            self._close(first.connection)

    async def close(self) -> None:
        """Open and keep no connection any more."""
        await self._learning.close()
        if self._first is not None:
            self._drop(self._first)
