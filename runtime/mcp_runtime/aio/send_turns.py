"""Turns to write to a peer that many clients share, where it does not read as fast as they send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from .fair_places import FairPlaces


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
