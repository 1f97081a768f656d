"""The values of sessions in the store that the workers of a server share."""

from __future__ import annotations

from typing import Final

from ...stores.primitives import Store

_DAY: Final = 86_400.0  # Seconds after its last change for which a value is stored.


class StoredStates:
    """The values that the functions of an app store for sessions; see `StateStore`."""

    def __init__(self, store: Store, namespace: str) -> None:
        """Use a store; `namespace` is the name of the server."""
        self._store = store
        self._namespace = namespace

    async def get(self, session: str, key: str) -> bytes | None:
        """Return the JSON of a value; None if there is none."""
        return await self._store.get(self._key(session, key))

    async def set(self, session: str, key: str, value: bytes) -> None:
        """Store the JSON of a value."""
        await self._store.put(self._key(session, key), value, _DAY)

    async def delete(self, session: str, key: str) -> None:
        """Delete a value; do nothing if there is none."""
        await self._store.delete(self._key(session, key))

    def _key(self, session: str, key: str) -> str:
        return f"{self._namespace}:state:{session}:{key}"
