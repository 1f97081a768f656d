"""The addresses that bridges and gateways listen on."""

from __future__ import annotations

from typing import Final

from mcp_runtime.errors import LocalError

_THIS_MACHINE: Final = "127.0.0.1"


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of `host:port`, `:port` or `port`; without a host, that of this machine.

    Raises LocalError for another text.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise LocalError(f"--http needs HOST:PORT, such as 127.0.0.1:8000, not {text!r}")
    return host.strip("[]") or _THIS_MACHINE, int(port)
