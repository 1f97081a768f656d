"""Stores for the state of clients' sessions."""

from __future__ import annotations

from typing import Final, Protocol

from ..aio.bounded_cache import BoundedCache

_DAY: Final = 86_400.0  # Seconds.
_MAX_SESSIONS: Final = 10_000


class StateStore(Protocol):
    """A store of the values of sessions; write one that several processes share."""

    async def get(self, session: str, key: str) -> bytes | None:
        """Return the JSON of a value; None if there is none."""
        ...

    async def set(self, session: str, key: str, value: bytes) -> None:
        """Store the JSON of a value."""
        ...

    async def delete(self, session: str, key: str) -> None:
        """Delete a value; do nothing if there is none."""
        ...


class InMemoryStateStore:
    """A store in the memory of this process, for the sessions that were used last."""

    def __init__(self, *, max_sessions: int = _MAX_SESSIONS, lifetime: float = _DAY) -> None:
        """Create an empty store.

        Args:
            max_sessions: The number of sessions that are stored at most. Default 10000.
            lifetime: Seconds after the last `set` for which the values of a session are stored. Default one day.
        """
        self._sessions = BoundedCache[str, dict[str, bytes]](max_sessions, ttl=lifetime)

    async def get(self, session: str, key: str) -> bytes | None:
        """Return the JSON of a value; None if there is none."""
        return (self._sessions.get(session) or {}).get(key)

    async def set(self, session: str, key: str, value: bytes) -> None:
        """Store the JSON of a value."""
        values = self._sessions.get(session) or {}
        values[key] = value
        self._sessions.put(session, values)

    async def delete(self, session: str, key: str) -> None:
        """Delete a value; do nothing if there is none."""
        values = self._sessions.get(session)
        if values is not None:
            values.pop(key, None)
