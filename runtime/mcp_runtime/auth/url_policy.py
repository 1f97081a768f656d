"""The URL policy: the rule against server-side request forgery for URLs that another party names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from ..errors import AuthorizationError
from ..http.urls import base_url

_LOCAL_NAMES: Final = ("localhost",)
# An IPv6 address outside of the unicast block, or any address in a special block, belongs to no host of the internet,
# or
# leads to another address, which may be private (IANA special-purpose registries). Older Python versions lack some.
_UNICAST: Final = ip_network("2000::/3")
_SPECIAL: Final = tuple(map(ip_network, ("3fff::/20", "192.0.0.0/24", "192.88.99.0/24")))


@dataclass(frozen=True, slots=True)
class URLPolicy:
    """The URLs that may be requested for OAuth: `https`, or `http` on this machine, at public internet addresses.

    Args:
        local: True to allow this machine, for example if the MCP server runs on it. Default False.
        private: Origins (`https://host:port`, lower case) that may be at any address; `http` stays limited to this
            machine. Default: none.
    """

    local: bool = False
    private: frozenset[str] = frozenset()

    def check(self, url: str) -> str:
        """Return the URL. Raises AuthorizationError if the URL itself breaks the policy."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise AuthorizationError("an OAuth URL cannot be parsed") from None
        if any(character <= " " or character in '\\"<>^`{|}' or character >= "\x7f" for character in url):
            raise AuthorizationError("an OAuth URL has characters that are not allowed in URLs")
        if not host:
            raise AuthorizationError("an OAuth URL must have a host")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
            raise AuthorizationError(f"{host}: an OAuth URL must use https, or http on this machine")
        if parts.username is not None or parts.password is not None:
            raise AuthorizationError(f"{host}: an OAuth URL must not have user information")
        if "#" in url:
            raise AuthorizationError(f"{host}: an OAuth URL must not have a fragment")
        if is_loopback(host) and not self._may_be_local(url):
            raise AuthorizationError(
                f"{host}: URLs on this machine are not allowed for a remote server; allow them with "
                "URLPolicy(local=True)"
            )
        if _address(host) is not None:
            self.check_addresses(url, [host])
        return url

    def check_addresses(self, url: str, addresses: Sequence[str]) -> None:
        """Raise AuthorizationError unless all addresses of the URL's host are allowed."""
        host = urlsplit(url).hostname or ""
        if not addresses:
            raise AuthorizationError(f"{host} has no address")
        if self._is_private_origin(url):
            return
        for text in addresses:
            address = _address(text)
            if address is None or not ((address.is_loopback and self._may_be_local(url)) or _is_public(address)):
                raise AuthorizationError(
                    f"{host} has an address that is not public; allow its origin with URLPolicy(private=…)"
                )
            if urlsplit(url).scheme == "http" and not address.is_loopback:
                raise AuthorizationError(f"{host}: http is allowed on this machine only; use https")

    def _may_be_local(self, url: str) -> bool:
        return self.local or self._is_private_origin(url)

    def _is_private_origin(self, url: str) -> bool:
        return base_url(url).lower() in self.private


def is_loopback(host: str) -> bool:
    """Return True if a host name or address means this machine."""
    address = _address(host)
    return host.lower() in _LOCAL_NAMES if address is None else address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and (address.sixtofour or address.teredo or address not in _UNICAST):
        return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _SPECIAL)
