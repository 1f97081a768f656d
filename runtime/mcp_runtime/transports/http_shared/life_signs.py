"""Signs of life of workers, and the epoch of the store: by these a worker notices that the store has lost its past.

All workers know the epoch, a random value in a record. Whoever finds that the record is gone, or that the store has an
older sign of life than this worker has stored, begins a new epoch. So each worker notices a loss once: a store that was
emptied or deleted, one that was started again from an older state, and a replica that has taken over too early.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from pydantic_core import from_json, to_json

from ...aio import clock
from ...stores.retrying_store import RetryingStore

EPOCH_SECONDS: Final = 30 * 86_400.0  # Seconds for which an epoch is stored after the last worker has looked at it.
_SURE: Final = 0.9  # The part of its time to live for which a sign is there for certain.


class LifeSigns:
    """What one worker shows of itself, and sees of the others."""

    def __init__(self, store: RetryingStore, id: str, key: Callable[[str, str], str], seconds: float) -> None:
        """Show nothing before `look`.

        Args:
            store: The store of all workers.
            id: The id of this worker.
            key: Returns the key of a record from its kind and its name.
            seconds: Seconds after its last sign at which a worker counts as ended.
        """
        self._store = store
        self._key = key
        self._seconds = seconds
        self._own = key("alive", id)
        self._looking = asyncio.Lock()
        self._number = 0  # Of the last sign.
        self._shown = 0  # Of the last sign that is stored for certain.
        self._shown_at = (float("-inf"), float("-inf"))  # By both clocks.
        self._epoch: bytes | None = None
        self.losses = 0  # How often the store has lost its past. A request that looks may be cancelled at any await.
        self.has_begun = False  # True if the store had no epoch when this worker first looked.
        self.paused_at = float("-inf")  # When this worker was last seen to have paused.
        self.unsure_until = float("-inf")  # Until then, a worker without a sign may be alive.

    @property
    def epoch(self) -> str:
        """The epoch of the store, as this worker has last seen it; "" before `look`."""
        return "" if self._epoch is None else self._epoch.decode()

    async def look(self, read: int = 0) -> None:
        """Show that this worker runs, and has read its mail up to a number; count a loss. Raises
        StoreUnavailableError."""
        async with self._looking:
            self._note_pause()
            await self._look_at_epoch(not await self._has_own_sign())
            self._number += 1
            times = clock.monotonic(), clock.wall()
            await self._store.put(self._own, to_json([self._number, read]), self._seconds)
            self._shown = self._number
            self._shown_at = times

    async def look_quickly(self) -> None:
        """Count a loss that another worker has noticed, or that of the epoch. Raises StoreUnavailableError."""
        async with self._looking:
            await self._look_at_epoch(False)

    async def read_by(self, worker: str) -> int | None:
        """Return up to which number another worker has read its mail; None if it shows no sign of life."""
        sign = await self._store.get(self._key("alive", worker))
        return None if sign is None else int(from_json(sign)[1])

    async def shows_life(self, worker: str) -> bool:
        """Return True if a worker has lately shown that it runs. Raises StoreUnavailableError."""
        return await self._store.get(self._key("alive", worker)) is not None

    async def leave(self) -> None:
        """Let the others know at once that this worker has ended. Raises StoreUnavailableError."""
        await self._store.store.delete(self._own)

    @property
    def paused_seconds(self) -> float:
        """Seconds since the last sign, by whichever clock has gone on further: the machine may have slept."""
        at, wall = self._shown_at
        return max(clock.monotonic() - at, clock.wall() - wall)

    def _note_pause(self) -> None:
        """Give the others time to show a sign of life after this worker has paused: they may have done so too."""
        if self._shown and self.paused_seconds > self._seconds:
            self.paused_at = clock.monotonic()
            self.give_time()

    def give_time(self) -> None:
        """Let each worker count as alive for a while."""
        self.unsure_until = clock.monotonic() + self._seconds

    async def _has_own_sign(self) -> bool:
        """Return False if the store has lost the last sign of this worker."""
        if not self._shown:
            return True
        sign = await self._store.get(self._own)
        if sign is None:
            return self.paused_seconds > _SURE * self._seconds  # Otherwise it has not expired.
        return int(from_json(sign)[0]) >= self._shown

    async def _look_at_epoch(self, is_lost: bool) -> None:
        key = self._key("epoch", "")
        while True:
            stored, known = await self._store.touch(key, EPOCH_SECONDS), self._epoch
            if stored is not None and (stored != known or not is_lost):
                break
            epoch = secrets.token_hex(8).encode()
            if await self._store.put(key, epoch, EPOCH_SECONDS, expected=stored):
                self.has_begun = known is None
                stored = epoch
                break
        self._epoch = stored
        if known is None or stored == known:
            return
        self.give_time()
        self._shown = 0  # Whatever sign is there, the next one replaces it.
        self.losses += 1
