"""Authenticated encryption of state that a peer stores for the server, such as `requestState`."""

from __future__ import annotations

import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import cache
from hashlib import sha256
from typing import Any, Final

from ..errors import LocalError

_PREFIX: Final = "mcp1."
_KEY: Final = 32  # Bytes of a key; the following are the bytes of the parts of a token.
_KEY_ID: Final = 4
_EXPIRY: Final = 8
_NONCE: Final = 12
_HEADER: Final = _KEY_ID + _EXPIRY
_MAX_STORED: Final = 64 << 20  # Bytes of values that are stored without encryption.


class InvalidTokenError(Exception):
    """A token was not encrypted by this server for this purpose, or has expired."""


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
        header = self._first + int(time.time() + self.lifetime).to_bytes(_EXPIRY, "big")
        nonce = secrets.token_bytes(_NONCE)
        ciphertext: bytes = self._ciphers[self._first].encrypt(nonce, value, header + associated_data)
        return _encode(header + nonce + ciphertext)

    def decrypt(self, token: str, associated_data: bytes) -> bytes:
        """Return the value of a token. Raises InvalidTokenError."""
        from cryptography.exceptions import InvalidTag

        if not token.startswith(_PREFIX):
            raise InvalidTokenError("the token is not from this server")
        try:
            raw = urlsafe_b64decode(token.removeprefix(_PREFIX).encode("ascii"))
        except ValueError:
            raise InvalidTokenError("the token is not from this server") from None
        if _encode(raw) != token:  # Base64 decoding ignores characters that are not in its alphabet.
            raise InvalidTokenError("the token was changed")
        header, nonce, ciphertext = raw[:_HEADER], raw[_HEADER : _HEADER + _NONCE], raw[_HEADER + _NONCE :]
        cipher = self._ciphers.get(header[:_KEY_ID])
        if cipher is None:
            raise InvalidTokenError("no key of this server decrypts the token")
        try:
            value: bytes = cipher.decrypt(nonce, ciphertext, header + associated_data)
        except (InvalidTag, ValueError):
            raise InvalidTokenError("the token was changed, or belongs to another request or user") from None
        if int.from_bytes(header[_KEY_ID:], "big") < time.time():
            raise InvalidTokenError("the token has expired")
        return value


def _encode(raw: bytes) -> str:
    return _PREFIX + urlsafe_b64encode(raw).decode()


class ProcessTokens(KeyRing):
    """Tokens of this process without encryption: it stores the values, and a token is the random name of one.

    They serve where `cryptography` is not installed. When the values exceed 64 MiB, the oldest are removed.
    """

    def __init__(self, lifetime: float = 600.0) -> None:
        """Create an empty store. `lifetime` are the seconds for which a token is valid."""
        self.lifetime = lifetime
        self._values: dict[str, tuple[float, bytes, bytes]] = {}  # In the order of their expiry, which is the first.
        self._size = 0
        self._lock = threading.Lock()

    def encrypt(self, value: bytes, associated_data: bytes) -> str:
        token = _encode(secrets.token_bytes(_KEY))
        with self._lock:
            self._values[token] = (time.time() + self.lifetime, value, associated_data)
            self._size += len(value) + len(associated_data)
            for name, (expires, stored, data) in list(self._values.items()):
                if self._size <= _MAX_STORED and expires >= time.time():
                    break
                del self._values[name]
                self._size -= len(stored) + len(data)
        return token

    def decrypt(self, token: str, associated_data: bytes) -> bytes:
        expires, value, data = self._values.get(token, (0.0, b"", b""))
        if expires < time.time():
            raise InvalidTokenError("the token has expired, or is not from this process")
        if data != associated_data:
            raise InvalidTokenError("the token was changed, or belongs to another request or user")
        return value


@cache
def process_key_ring() -> KeyRing:
    """Return the key ring of this process, for servers that are configured without keys."""
    try:
        return KeyRing(KeyRing.new_key())
    except LocalError:  # `cryptography` is not installed.
        return ProcessTokens()
