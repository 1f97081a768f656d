"""A URL that somebody else named goes in; out comes that it may be asked, or AuthorizationError with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from ..errors import AuthorizationError

_LOCAL_NAMES: Final = ("localhost",)
# Outside of the first of these, and inside of the others, an address is of no host of the internet, or leads to another
# address, which may be a private one (IANA special-purpose registries); tables of Python know some of them only lately.
_UNICAST: Final = ip_network("2000::/3")
_SPECIAL: Final = tuple(map(ip_network, ("3fff::/20", "192.0.0.0/24", "192.88.99.0/24")))


@dataclass(frozen=True, slots=True)
class URLPolicy:
    """Which URLs of authorization are asked: https, or http on this machine, at addresses that the whole internet
    reaches. `local`: this machine may be asked, as when the MCP server itself runs on it. `private`: origins
    (`https://host:port`) that may be at any address, though never over plain http off this machine."""

    local: bool = False
    private: frozenset[str] = frozenset()

    def check(self, url: str) -> str:
        """The URL, if its form allows it to be asked. Raises AuthorizationError."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise AuthorizationError("a URL of authorization cannot be read") from None
        if any(character <= " " or character in '\\"<>^`{|}' or character >= "\x7f" for character in url):
            raise AuthorizationError("a URL of authorization has characters that no URL has")
        if not host:
            raise AuthorizationError("a URL of authorization has no host")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
            raise AuthorizationError(f"{host}: a URL of authorization is https, or http on this machine")
        if parts.username is not None or parts.password is not None:
            raise AuthorizationError(f"{host}: a URL of authorization has no user in it")
        if "#" in url:
            raise AuthorizationError(f"{host}: a URL of authorization has no fragment")
        if is_loopback(host) and not self._may_be_local(url):
            raise AuthorizationError(f"{host}: a server elsewhere may not name this machine")
        if _address(host) is not None:
            self.check_addresses(url, [host])
        return url

    def check_addresses(self, url: str, addresses: Sequence[str]) -> None:
        """Raises AuthorizationError unless all of the addresses that the host has may be asked."""
        host = urlsplit(url).hostname or ""
        if not addresses:
            raise AuthorizationError(f"{host} has no address")
        if _url_origin(url) in self.private:
            return
        for each in addresses:
            address = _address(each)
            if address is None or not (address.is_loopback and self._may_be_local(url) or _is_public(address)):
                raise AuthorizationError(f"{host} is at an address of a private network")
            if urlsplit(url).scheme == "http" and not address.is_loopback:
                raise AuthorizationError(f"{host}: plain http is for this machine alone")

    def _may_be_local(self, url: str) -> bool:
        return self.local or _url_origin(url) in self.private


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or its address."""
    address = _address(host)
    return host.lower() in _LOCAL_NAMES if address is None else address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and (address.sixtofour or address.teredo or address not in _UNICAST):
        return False
    return address.is_global and not address.is_multicast and not any(address in each for each in _SPECIAL)


def _url_origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
