"""Host and Origin checks against DNS rebinding and cross-site requests.

Names are compared as a whole, never by prefix or suffix.
https://modelcontextprotocol.io/specification/draft/basic/transports#security-warning
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from .headers import Headers, HTTPError

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_MAX_SHOWN: Final = 200  # Characters of a header value in a message.


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """The Host and Origin headers that a server accepts.

    `hosts` are names with or without a port, such as `localhost` or `api.example.com:8443`; a name without a port
    allows every port; `*` allows every host. `origins` are the origins of web pages, such as
    `https://app.example.com`; `*` allows all. If all loopback hosts are allowed, loopback origins are allowed too.
    """

    hosts: frozenset[str] = field(default_factory=lambda: frozenset(LOOPBACK))
    origins: frozenset[str] = frozenset()

    @classmethod
    def create(cls, hosts: Iterable[str] | None, origins: Iterable[str] | None) -> OriginPolicy:
        """Create a policy. Without `hosts`, the loopback hosts are allowed; without `origins`, no further origins."""
        names = LOOPBACK if hosts is None else hosts
        return cls(frozenset(host.lower() for host in names), frozenset(origin.lower() for origin in origins or ()))

    def check(self, headers: Headers) -> HTTPError | None:
        """Return the error to reject a request with because of its Host or Origin, None if both are allowed."""
        host = headers.get("host", "")
        if not host and "*" not in self.hosts:
            return HTTPError(400, "the Host header is missing")
        if "*" not in self.hosts and not self._is_allowed_host(host.lower()):
            shown = host[:_MAX_SHOWN]
            return HTTPError(421, f"the Host {shown!r} is not allowed; pass hosts=[{shown!r}] to run() or asgi()")
        origin = headers.get("origin")
        if origin is not None and not self._is_allowed_origin(origin.lower()):
            shown = origin[:_MAX_SHOWN]
            return HTTPError(403, f"the Origin {shown!r} is not allowed; pass origins=[{shown!r}] to run() or asgi()")
        return None

    def _is_allowed_host(self, host: str) -> bool:
        if host in self.hosts:
            return True
        name, colon, port = host.rpartition(":")
        return bool(colon) and port.isascii() and port.isdigit() and name in self.hosts

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
        normalized = f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")
        return parts.scheme in ("http", "https") and name in LOOPBACK and normalized == origin
