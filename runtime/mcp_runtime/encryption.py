"""What a server wants handed back goes in; a sealed text comes out, which nobody else can read, change or reuse elsewhere."""

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import cache
from hashlib import sha256
from typing import Any, Final

from .errors import LocalError

_MARK: Final = "mcp1."
_KEY: Final = 32  # Bytes of a key, and of the following parts of a sealed text.
_NAME: Final = 4
_EXPIRY: Final = 8
_NONCE: Final = 12
_HEAD: Final = _NAME + _EXPIRY


class InvalidTokenError(Exception):
    """A text that was not sealed here, for this, or is too old."""


class KeyRing:
    """Keys of 32 random bytes each: the first one seals, all of them open. Replicas share a ring; to rotate, put a new
    key first, and take the oldest away once `lifetime` seconds, for which a sealed text is good, have passed.

    Raises LocalError for a key of another length, and where the package `cryptography` is missing.
    """

    def __init__(self, *keys: bytes, lifetime: float = 600.0) -> None:
        if not keys or any(len(key) != _KEY for key in keys):
            raise LocalError(f"a key ring needs keys of {_KEY} bytes each, such as those of KeyRing.new_key()")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise LocalError("to seal state, install mcp-codegen[auth], which brings cryptography") from None
        self.lifetime = lifetime
        self._ciphers: dict[bytes, Any] = {sha256(key).digest()[:_NAME]: AESGCM(key) for key in keys}
        self._first = next(iter(self._ciphers))

    @staticmethod
    def new_key() -> bytes:
        """A key for a ring."""
        return secrets.token_bytes(_KEY)

    def encrypt(self, value: bytes, associated_data: bytes) -> str:
        """The value as text that opens for the same `bound` alone, until its lifetime is over."""
        head = self._first + int(time.time() + self.lifetime).to_bytes(_EXPIRY, "big")
        nonce = secrets.token_bytes(_NONCE)
        closed: bytes = self._ciphers[self._first].encrypt(nonce, value, head + associated_data)
        return _encode(head + nonce + closed)

    def decrypt(self, text: str, associated_data: bytes) -> bytes:
        """What was sealed. Raises Unsealable."""
        from cryptography.exceptions import InvalidTag

        if not text.startswith(_MARK):
            raise InvalidTokenError("it is not of this server")
        try:
            raw = urlsafe_b64decode(text.removeprefix(_MARK).encode("ascii"))
        except ValueError:
            raise InvalidTokenError("it is not of this server") from None
        if _encode(raw) != text:  # Decoding leaves out what does not belong there.
            raise InvalidTokenError("it was changed")
        head, nonce, closed = raw[:_HEAD], raw[_HEAD : _HEAD + _NONCE], raw[_HEAD + _NONCE :]
        cipher = self._ciphers.get(head[:_NAME])
        if cipher is None:
            raise InvalidTokenError("no key of this server opens it")
        try:
            value: bytes = cipher.decrypt(nonce, closed, head + associated_data)
        except (InvalidTag, ValueError):
            raise InvalidTokenError("it was changed, or belongs to another request or user") from None
        if int.from_bytes(head[_NAME:], "big") < time.time():
            raise InvalidTokenError("it has expired")
        return value


def _encode(raw: bytes) -> str:
    return _MARK + urlsafe_b64encode(raw).decode()


@cache
def process_key_ring() -> KeyRing:
    """The ring of this process alone, for servers that are given none."""
    return KeyRing(KeyRing.new_key())
