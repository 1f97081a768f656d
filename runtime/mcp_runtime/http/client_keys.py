"""What tells the clients of an HTTP endpoint apart: their users, or else their addresses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

ClientKey = tuple[str, Hashable]


def client_key(owner: object, address: str | None) -> ClientKey:
    """Return what identifies a client: its user if there is one, else its address.

    One client may have all addresses of an IPv6 network, so that only the first 64 bits of such an address count.
    """
    if owner is not None:
        return "user", owner if isinstance(owner, Hashable) else repr(owner)
    return "address", _network_of(address)


def address_of(scope: Mapping[str, Any] | None) -> str | None:
    """Return the IP address of an ASGI scope's client, or of the last proxy; None if it has none."""
    client = None if scope is None else scope.get("client")
    return client[0] if client else None


def _network_of(address: str | None) -> str | None:
    if address is None or ":" not in address:
        return address
    from ipaddress import AddressValueError, IPv6Address  # Imported late: few addresses are of this kind.

    try:
        number = IPv6Address(address.partition("%")[0])
    except AddressValueError:
        return address
    return str(number.ipv4_mapped or number.packed[:8].hex())
