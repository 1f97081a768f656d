"""The connections that sessions of clients have for themselves: none takes all, and what is too much is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from mcp_products.relay.upstream.fair_pool import FairPlaces
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.http.clients import ClientKey
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR

PROCESSES: Final = 256  # Each connection to a command is a process.
HTTP_CONNECTIONS: Final = 10_000
_RETRY_SECONDS: Final = 10  # Sessions last; a client that was refused need not ask at once.


class NoSessionPlaceError(JSONRPCError):
    """A client has as many sessions with a connection as it may have, or all have."""


class SessionPlaces:
    """A number of connections of sessions, of which a client has at most half of those that others leave.

    A session may last for hours, so that nobody waits for its place: a client without a share is refused at once.
    """

    def __init__(self, limit: int, of: str, setting: str) -> None:
        """Create places that nobody has.

        Args:
            limit: The number of places.
            of: What the connections are to, for messages.
            setting: The setting of the limit, for messages.
        """
        self.limit = limit
        self._places = FairPlaces(limit)
        self._of = of
        self._setting = setting

    def take(self, client: ClientKey | None) -> Callable[[], None]:
        """Take a place, and return what gives it back, once, however often it is called.

        `client` is None over stdio and in memory: there, a session is a process or an object of whoever uses it.
        Raises NoSessionPlaceError.
        """
        if client is None:
            return lambda: None
        if not self._places.may_take(client):
            raise self._error(client)
        self._places.take_now(client)
        taken = [client]

        def give_back() -> None:
            if taken:
                self._places.give_back(taken.pop())

        return give_back

    def _error(self, client: ClientKey) -> NoSessionPlaceError:
        places = self._places
        is_full = places.taken >= places.limit
        whose = "of all sessions" if is_full else f"that sessions of one client may have, of {places.limit},"
        number = places.limit if is_full else places.share(client)
        message = (
            f"all {number} connections to {self._of} {whose} are in use: end sessions that are not needed, or set"
            f" {self._setting} to a higher number"
        )
        return NoSessionPlaceError(INTERNAL_ERROR, message, {"retryAfter": _RETRY_SECONDS})


# Turns to write to a peer that many clients share, where it does not read as fast as they send.


class SendTurns:
    """Clients take turns to send, so that none waits for more than one message of each other client, and for what the
    transport holds already."""

    def __init__(self) -> None:
        """Create turns that nobody has."""
        self._places = FairPlaces(1)

    async def take(self, client: Hashable, drain: Callable[[], Awaitable[None]]) -> None:
        """Wait for the turn of a client, and until the transport has room. Who has called this sends at once, before
        it waits again: then the turn is that of the next one."""
        await self._places.take(client)
        try:
            await drain()
        except BaseException:
            self._places.give_back(client)
            raise
        asyncio.get_running_loop().call_soon(self._places.give_back, client)
