"""Tokens for state that a peer stores for the server, such as `requestState`."""

from __future__ import annotations

import secrets
import threading
from base64 import urlsafe_b64encode
from functools import cache
from typing import Final, Protocol

from .. import products
from ..aio import clock as clocks

PREFIX: Final = "mcp1."
_NAME: Final = 32  # Bytes of the random name of a value.
_MAX_STORED: Final = 64 << 20  # Bytes of values that are stored here.


class InvalidTokenError(Exception):
    """A token was not encrypted by this server for this purpose, or has expired."""


class StateKeys(Protocol):
    """What makes a token of a value, and a value of a token."""

    def encrypt(self, value: bytes, associated_data: bytes) -> str:
        """Return a token that `decrypt` accepts with the same associated data until it expires."""
        ...

    def decrypt(self, token: str, associated_data: bytes) -> bytes:
        """Return the value of a token. Raises InvalidTokenError."""
        ...


def encoded(raw: bytes) -> str:
    """Return the text of a token."""
    return PREFIX + urlsafe_b64encode(raw).decode()


class ProcessTokens:
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
        token = encoded(secrets.token_bytes(_NAME))
        with self._lock:
            self._values[token] = (clocks.wall() + self.lifetime, value, associated_data)
            self._size += len(value) + len(associated_data)
            for name, (expires, stored, data) in list(self._values.items()):
                if self._size <= _MAX_STORED and expires >= clocks.wall():
                    break
                del self._values[name]
                self._size -= len(stored) + len(data)
        return token

    def decrypt(self, token: str, associated_data: bytes) -> bytes:
        expires, value, data = self._values.get(token, (0.0, b"", b""))
        if expires < clocks.wall():
            raise InvalidTokenError("the token has expired, or is not from this process")
        if data != associated_data:
            raise InvalidTokenError("the token was changed, or belongs to another request or user")
        return value


@cache
def process_keys() -> StateKeys:
    """Return what makes the tokens of this process, for servers that are configured without keys."""
    keys = products.find("keys")
    return ProcessTokens() if keys is None else keys.process_keys()
