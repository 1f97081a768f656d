"""`CacheHint` of the official SDK, with a time to live in milliseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Self

from mcp_products.common.keys import KeyRing
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.revision import Request, Revision
from mcp_runtime.server.lists import CacheHint

_SEPARATOR: Final = re.compile(r"[/\\]")
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:")


class MillisecondCacheHint(CacheHint):
    """How long clients may cache a result: a `CacheHint` with milliseconds."""

    def __init__(self, ttl_ms: int = 0, scope: Literal["public", "private"] = "private") -> None:
        """Create the hint. Raises LocalError for a negative time, and for another scope.

        Args:
            ttl_ms: The time to live of the result, in milliseconds; 0 forbids to cache it.
            scope: "public" if caches may share the result between users.
        """
        super().__init__(ttl_ms / 1000, scope)


def named_by_handler(cache_hints: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    """Return cache hints by the names of handlers, such as "list_tools", instead of methods."""
    names = {row.method: row.name for row in revision.rows if isinstance(row, Request)}
    return {names.get(key, key): hint for key, hint in cache_hints.items()}


# `RequestStateSecurity` of the official SDK: the keys of multi round-trip requests.


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


# Checks of the paths of files that clients name, as the official SDK has them.


class PathEscapeError(ValueError):
    """A path leaves its folder."""


def contains_path_traversal(value: str) -> bool:
    """Return True if the segments `..` of a relative path leave the folder in which it begins."""
    depth = 0
    for segment in _SEPARATOR.split(value):
        depth += -1 if segment == ".." else segment not in ("", ".")
        if depth < 0:
            return True
    return False


def is_absolute_path(value: str) -> bool:
    """Return True for an absolute path of a POSIX system or of Windows, also if it is only a drive."""
    return _ABSOLUTE.match(value) is not None


def safe_join(base: str | PathLike[str], *parts: str) -> Path:
    """Return the path of a file in a folder, with symbolic links resolved.

    Raises PathEscapeError for a part that is absolute or has a NUL character, and if the path leaves the folder.

    Args:
        base: The folder.
        parts: The parts of the path, such as those that a client has sent.
    """
    root = Path(base).resolve()
    for part in parts:
        if "\0" in part or is_absolute_path(part):
            raise PathEscapeError(f"safe_join(): {part!r} is not a relative path")
    path = root.joinpath(*parts).resolve()
    if not path.is_relative_to(root):
        raise PathEscapeError(f"safe_join(): {'/'.join(parts)!r} leaves its folder")
    return path
