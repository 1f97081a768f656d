"""`TransportSecuritySettings` of the official SDK: the hosts and origins that a server accepts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class TransportSecuritySettings:
    """The Host and Origin headers to accept; a port may be `*`."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = field(default_factory=list[str])
    allowed_origins: list[str] = field(default_factory=list[str])

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of `asgi`."""
        if not self.enable_dns_rebinding_protection:
            return {"hosts": ["*"], "origins": ["*"]}
        hosts = [host.removesuffix(":*") for host in self.allowed_hosts]
        return {"hosts": hosts, "origins": [origin.removesuffix(":*") for origin in self.allowed_origins]}
