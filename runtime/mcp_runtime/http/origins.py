"""Host and Origin of a request go in, and whether a browser was tricked into sending it comes out.

Names are compared whole and exactly, never by their beginning or end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from .headers import Headers, HTTPError

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """Which hosts a server goes by, and which web pages may call it.

    `hosts` are names with or without a port, such as `localhost` or `api.example.com:8443`; without one, any port will
    do; `*` is any host. `origins` are what browsers send, such as `https://app.example.com`; pages of the loopback
    hosts may always call a server that goes by these.
    """

    hosts: frozenset[str] = field(default_factory=lambda: frozenset(LOOPBACK))
    origins: frozenset[str] = frozenset()

    @classmethod
    def create(cls, hosts: Iterable[str] | None, origins: Iterable[str] | None) -> OriginPolicy:
        known = LOOPBACK if hosts is None else hosts
        return cls(frozenset(host.lower() for host in known), frozenset(each.lower() for each in origins or ()))

    def check(self, headers: Headers) -> HTTPError | None:
        """What is wrong with the Host and Origin of a request, if something is."""
        host = headers.get("host")
        if not host:
            return HTTPError(400, "a request has to have one Host header")
        if "*" not in self.hosts and not self._is_allowed_host(host.lower()):
            return HTTPError(421, "this server does not go by the name in the Host header")
        origin = headers.get("origin")
        if origin is not None and not self._is_allowed_origin(origin.lower()):
            return HTTPError(403, "the Origin is not one that may call this server")
        return None

    def _is_allowed_host(self, host: str) -> bool:
        if host in self.hosts:
            return True
        name, colon, port = host.rpartition(":")
        return bool(colon) and port.isdigit() and name in self.hosts

    def _is_allowed_origin(self, origin: str) -> bool:
        if origin in self.origins or "*" in self.origins:
            return True
        if not self.hosts.issuperset(LOOPBACK):
            return False
        try:
            parts = urlsplit(origin)
            port = parts.port
        except ValueError:
            return False
        name = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        plain = f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")
        return parts.scheme in ("http", "https") and name in LOOPBACK and plain == origin
