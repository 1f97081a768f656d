"""What tells the clients of an HTTP endpoint apart: their users, or else their addresses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, cast

from ..errors import LocalError

ClientKey = tuple[str, Hashable]

_ADDRESSES: Final = 1024  # Addresses whose keys are kept.


class ClientCounts:
    """How many of something the clients have at present."""

    def __init__(self, limit_of_user: int, limit_of_address: int) -> None:
        """Create counts of 0. Behind a proxy, many users may have one address.

        Args:
            limit_of_user: What one user or session may have.
            limit_of_address: What one address without a user may have.
        """
        self._limit_of_user = limit_of_user
        self._limit_of_address = limit_of_address
        self._counts: dict[Hashable, int] = {}
        self.total = 0

    def is_full(self, client: Hashable) -> bool:
        """Return True if a client has all that it may have."""
        limit = self._limit_of_address if _is_address(client) else self._limit_of_user
        return self._counts.get(client, 0) >= limit

    def add(self, client: Hashable) -> None:
        """Count one more of a client."""
        self.total += 1
        self._counts[client] = self._counts.get(client, 0) + 1

    def remove(self, client: Hashable) -> None:
        """Count one less of a client."""
        self.total -= 1
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]


def _is_address(client: Hashable) -> bool:
    return isinstance(client, tuple) and cast("tuple[object, ...]", client)[:1] == ("address",)


def client_key(owner: object, address: str | None) -> ClientKey:
    """Return what identifies a client: its user if there is one, else its address.

    One client may have all addresses of an IPv6 network, so that only the first 64 bits of such an address count.
    """
    if owner is not None:
        return "user", owner if isinstance(owner, Hashable) else repr(owner)
    return _address_key(address)


@lru_cache(_ADDRESSES)
def _address_key(address: str | None) -> ClientKey:
    """Return one object for all clients of an address: very many sessions may have it."""
    return "address", _network_of(address)


def user_of(scope: Mapping[str, Any]) -> object:
    """Return the id of the user that Starlette's authentication middleware has put into the ASGI scope; None without
    one. It is the `identity` of the user, or else its `username`; a display name need not be unique.

    Raises LocalError for a user with neither.
    """
    user = scope.get("user")
    if user is None or not getattr(user, "is_authenticated", False):
        return None
    for name in ("identity", "username"):
        with suppress(NotImplementedError):  # Starlette's base class has an `identity` that raises it.
            if (id := getattr(user, name, None)) not in (None, ""):
                return id
    raise LocalError(
        f"{type(user).__name__} has no `identity` that tells users apart; give it one, or pass asgi(owner=…)"
    )


def address_of(scope: Mapping[str, Any] | None) -> str | None:
    """Return the IP address of an ASGI scope's client, or of the last proxy; None if it has none."""
    client = None if scope is None else scope.get("client")
    return client[0] if client else None


def session_client(owner: object, scope: Mapping[str, Any] | None) -> ClientKey | None:
    """Return what identifies the client of a session over HTTP, its user or else its address; None elsewhere."""
    return None if scope is None else client_key(owner, address_of(scope))


def _network_of(address: str | None) -> str | None:
    if address is None or ":" not in address:
        return address
    from ipaddress import AddressValueError, IPv6Address  # Imported late: few addresses are of this kind.

    try:
        number = IPv6Address(address.partition("%")[0])
    except AddressValueError:
        return address
    return str(number.ipv4_mapped or number.packed[:8].hex())


# Bytes that a server holds for its clients: whoever holds most of them loses first.


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
