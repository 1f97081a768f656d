"""`CacheHint` of the official SDK, with a time to live in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...protocol.revision import Request, Revision
from ...server.cache_hints import CacheHint


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
