"""The seam of the fast transport of a bridge (ADR 0051): which transport over HTTP, and which sessions of clients.

`MCP_FAST_PATHS=0` selects those of the core, which do the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_runtime._lazy import load
from mcp_runtime.usage import rules

if TYPE_CHECKING:
    from mcp_runtime.transports.http_client.transport import HTTPClientTransport

ENABLED: Final = rules.is_switched_on(rules.FAST_PATHS)


def http_transport_class() -> type[HTTPClientTransport]:
    """Return the class of the transports of a bridge to an upstream over HTTP. Raises ImportError without an extra."""
    transport: type[HTTPClientTransport]
    if ENABLED:
        transport = load("mcp_products.relay.upstream.http").UpstreamHTTPTransport
    else:
        transport = load("mcp_runtime.transports.http_client.transport").HTTPClientTransport
    return transport
