"""Authenticated encryption of state that a peer stores for the server, such as `requestState`."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode
from functools import cache
from hashlib import sha256
from typing import Any, Final

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.server.state_tokens import PREFIX, InvalidTokenError, ProcessTokens, StateKeys, encoded

_KEY: Final = 32  # Bytes of a key; the following are the bytes of the parts of a token.
_KEY_ID: Final = 4
_EXPIRY: Final = 8
_NONCE: Final = 12
_HEADER: Final = _KEY_ID + _EXPIRY


class KeyRing:
    """Keys for AES-256-GCM: the first key encrypts, all keys decrypt.

    Replicas of a server share a ring. To rotate keys, put a new key first, and remove the oldest key when `lifetime`
    seconds have passed.
    """

    def __init__(self, *keys: bytes, lifetime: float = 600.0) -> None:
        """Create a key ring. Raises LocalError for a key of wrong length, and if `cryptography` is not installed.

        Args:
            keys: Keys of 32 random bytes each, such as those of `KeyRing.new_key()`; at least one.
            lifetime: Seconds for which an encrypted token is valid. Default 600.
        """
        if not keys or any(len(key) != _KEY for key in keys):
            raise LocalError(f"a key ring needs keys of {_KEY} bytes each, such as those of KeyRing.new_key()")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError:
            raise LocalError("encryption needs cryptography: pip install 'mcp-generated[auth]'") from None
        self.lifetime = lifetime
        self._ciphers: dict[bytes, Any] = {sha256(key).digest()[:_KEY_ID]: AESGCM(key) for key in keys}
        self._first = next(iter(self._ciphers))

    @staticmethod
    def new_key() -> bytes:
        """Return a new random key for a key ring."""
        return secrets.token_bytes(_KEY)

    def encrypt(self, value: bytes, associated_data: bytes) -> str:
        """Return a token that `decrypt` accepts with the same associated data until the lifetime has passed."""
        header = self._first + int(clocks.wall() + self.lifetime).to_bytes(_EXPIRY, "big")
        nonce = secrets.token_bytes(_NONCE)
        ciphertext: bytes = self._ciphers[self._first].encrypt(nonce, value, header + associated_data)
        return encoded(header + nonce + ciphertext)

    def decrypt(self, token: str, associated_data: bytes) -> bytes:
        """Return the value of a token. Raises InvalidTokenError."""
        from cryptography.exceptions import InvalidTag

        if not token.startswith(PREFIX):
            raise InvalidTokenError("the token is not from this server")
        try:
            raw = urlsafe_b64decode(token.removeprefix(PREFIX).encode("ascii"))
        except ValueError:
            raise InvalidTokenError("the token is not from this server") from None
        if encoded(raw) != token:  # Base64 decoding ignores characters that are not in its alphabet.
            raise InvalidTokenError("the token was changed")
        header, nonce, ciphertext = raw[:_HEADER], raw[_HEADER : _HEADER + _NONCE], raw[_HEADER + _NONCE :]
        cipher = self._ciphers.get(header[:_KEY_ID])
        if cipher is None:
            raise InvalidTokenError("no key of this server decrypts the token")
        try:
            value: bytes = cipher.decrypt(nonce, ciphertext, header + associated_data)
        except (InvalidTag, ValueError):
            raise InvalidTokenError("the token was changed, or belongs to another request or user") from None
        if int.from_bytes(header[_KEY_ID:], "big") < clocks.wall():
            raise InvalidTokenError("the token has expired")
        return value


@cache
def process_keys() -> StateKeys:
    """Return the keys of this process, for servers that are configured without keys."""
    try:
        return KeyRing(KeyRing.new_key())
    except LocalError:  # `cryptography` is not installed.
        return ProcessTokens()
