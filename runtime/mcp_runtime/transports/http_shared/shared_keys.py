"""The keys that encrypt `requestState`: those of all workers, with a new one from time to time."""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json

from ...aio import clock as clocks
from .worker import Worker

_ROTATION_SECONDS: Final = 86_400.0  # Seconds after which there is a new key.
_SPREAD_SECONDS: Final = (
    900.0  # Seconds in which all workers have read a new key, before the first one encrypts with it.
)
_STORED_KEYS: Final = 3  # The key that encrypts, the one before, and perhaps the next one.
_TTL: Final = 30 * 86_400.0
REFRESH_SECONDS: Final = 300.0  # Seconds between two looks at the keys.

Clock = Callable[[], float]


class SharedKeys:
    """The keys in the store. The first key encrypts, all keys decrypt."""

    def __init__(self, worker: Worker, clock: Clock | None = None) -> None:
        """Use the keys of the store of a worker; `clock` returns seconds since the epoch."""
        self._worker = worker
        self._clock = clocks.wall if clock is None else clock
        self._known: bytes | None = None  # What the store had last.

    async def read(self) -> Sequence[bytes]:
        """Return the keys, the one that encrypts first; add a new one if the newest is a day old."""
        key, store = self._worker.key("keys"), self._worker.store
        while True:
            value = await store.get(key)
            known = self._known if value is None else value  # A store that has lost its keys gets those in use.
            stored: list[Any] = [] if known is None else from_json(known)
            now = self._clock()
            if value is not None and now - stored[0][0] < _ROTATION_SECONDS:
                break
            if not stored or now - stored[0][0] >= _ROTATION_SECONDS:
                stored = [[now, b64encode(secrets.token_bytes(32)).decode()], *stored][:_STORED_KEYS]
            if await store.put(key, to_json(stored), _TTL, expected=value):
                break
        self._known = to_json(stored)
        if len(stored) > 1 and now - stored[0][0] < _SPREAD_SECONDS:
            stored[0], stored[1] = stored[1], stored[0]
        return [b64decode(item[1]) for item in stored]
