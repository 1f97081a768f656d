"""Bytes that a server holds for its clients: whoever holds most of them loses first."""

from __future__ import annotations

from .client_keys import ClientKey


class BufferedBytes:
    """How many bytes are held for which holder and client, with a limit for all of them."""

    def __init__(self, limit: int) -> None:
        """Create an account of 0 bytes, of `limit` bytes at most."""
        self._limit = limit
        self._held: dict[object, tuple[ClientKey, int]] = {}
        self._of_clients: dict[ClientKey, int] = {}
        self.total = 0

    def set(self, holder: object, client: ClientKey, size: int) -> None:
        """Set how many bytes a holder of a client has; 0 removes it."""
        client, before = self._held.get(holder, (client, 0))
        if size:
            self._held[holder] = (client, size)
        else:
            self._held.pop(holder, None)
        self.total += size - before
        if of_client := self._of_clients.get(client, 0) + size - before:
            self._of_clients[client] = of_client
        else:
            self._of_clients.pop(client, None)

    def excess(self) -> object:
        """Return the holder that has to lose its bytes, None below the limit: that of the client with the most bytes
        that has most of them, and has had them for the longest time."""
        if self.total <= self._limit:
            return None
        client = max(self._of_clients, key=self._of_clients.__getitem__)
        sizes = {holder: size for holder, (owner, size) in self._held.items() if owner == client}
        return max(sizes, key=sizes.__getitem__)
