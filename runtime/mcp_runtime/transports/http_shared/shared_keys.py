"""The keys that encrypt `requestState`: those of all workers, with a new one from time to time."""

from __future__ import annotations

import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json

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

    def __init__(self, worker: Worker, clock: Clock = time.time) -> None:
        """Use the keys of the store of a worker; `clock` returns seconds since the epoch."""
        self._worker, self._clock = worker, clock

    async def read(self) -> Sequence[bytes]:
        """Return the keys, the one that encrypts first; add a new one if the newest is a day old."""
        key, store = self._worker.key("keys"), self._worker.store
        while True:
            value = await store.get(key)
            stored: list[Any] = [] if value is None else from_json(value)
            now = self._clock()
            if stored and now - stored[0][0] < _ROTATION_SECONDS:
                break
            stored = [[now, b64encode(secrets.token_bytes(32)).decode()], *stored][:_STORED_KEYS]
            if await store.put(key, to_json(stored), _TTL, expected=value):
                break
        if len(stored) > 1 and now - stored[0][0] < _SPREAD_SECONDS:
            stored[0], stored[1] = stored[1], stored[0]
        return [b64decode(item[1]) for item in stored]
