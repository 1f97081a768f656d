"""`RequestStateSecurity` of the official SDK: the keys of multi round-trip requests."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Self

from ...encryption import KeyRing
from ...errors import LocalError


class RequestStateSecurity:
    """How `requestState` is encrypted."""

    def __init__(
        self,
        *,
        keys: Sequence[bytes | bytearray | str] | None = None,
        codec: object = None,
        ttl: float = 600.0,
        audience: str | None = None,
    ) -> None:
        """Create the settings. Raises LocalError for a codec.

        Args:
            keys: Secrets of 32 bytes or more; the first one encrypts, all decrypt.
            codec: Must be None: the encryption is AES-256-GCM.
            ttl: Seconds for which a state is valid.
            audience: Accepted: a state is always bound to its request and user.
        """
        if codec is not None or not keys:
            raise LocalError(
                "RequestStateSecurity: codec has no counterpart; pass keys=[…], secrets of 32 bytes or more"
            )
        secrets = [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
        if short := [key for key in secrets if len(key) < 32]:
            raise LocalError(f"RequestStateSecurity: a key has {len(short[0])} bytes; pass keys of 32 bytes or more")
        self._keys = secrets
        self._ttl = ttl

    @classmethod
    def ephemeral(cls, *, ttl: float = 600.0, audience: str | None = None) -> Self:
        """Return settings with a key of this process."""
        return cls(keys=[KeyRing.new_key()], ttl=ttl, audience=audience)

    def key_ring(self) -> KeyRing:
        """Return the keys for `App(keys=…)`."""
        return KeyRing(*(sha256(key).digest() for key in self._keys), lifetime=self._ttl)
