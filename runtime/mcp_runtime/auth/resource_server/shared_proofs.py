"""The DPoP proofs that were used and the secret of nonces, in the store that the workers of an endpoint share."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from ...aio import clock as clocks
from ...stores.primitives import Store

_MAX_PROOFS: Final = 10_000  # Proofs of one key that are stored at the same time.
_SECRET_SECONDS: Final = 30 * 86_400.0  # Seconds for which the secret of nonces is stored after its last use.


class StoreReplayCache:
    """A replay cache in the store of all workers. While the store cannot be reached, no proof is accepted."""

    def __init__(self, store: Store, name: str = "dpop", clock: Callable[[], float] | None = None) -> None:
        """Use a store.

        Args:
            store: The store of all workers.
            name: The beginning of all keys. Default "dpop".
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
        """
        self._store = store
        self._name = name
        self._clock = clocks.wall if clock is None else clock
        self._secret: bytes | None = None

    async def add(self, id: str, expires_at: float) -> bool:
        """Store the id of a proof, `<thumbprint of the key>.<jti>`, until a time in seconds since the epoch.

        Return False if it is stored already, or if there are too many of one key. Raises StoreUnavailableError.
        """
        seconds = max(expires_at - self._clock(), 1.0)
        key = id.partition(".")[0]
        if await self._store.count(f"{self._name}:key:{key}", 1, seconds) > _MAX_PROOFS:
            return False
        # With a value of its own, a repeated command sees that it has stored the proof itself.
        name = f"{self._name}:proof:{sha256(id.encode()).hexdigest()}"
        return await self._store.put(name, secrets.token_bytes(16), seconds, None)

    async def nonce_secret(self) -> bytes:
        """Return the secret from which all workers derive nonces. Raises StoreUnavailableError."""
        if self._secret is None:
            key = f"{self._name}:nonce"
            while (secret := await self._store.touch(key, _SECRET_SECONDS)) is None:
                await self._store.put(key, secrets.token_bytes(32), _SECRET_SECONDS, None)
            self._secret = secret
        return self._secret
