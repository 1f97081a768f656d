"""A bridge or a gateway before the server of http_stress.py; it is run as a process of its own.

`python http_relay.py bridge|gateway PORT URL` serves on a port, says in its log which, and ends on SIGTERM. The bridge
runs its server itself, over stdio, and all sessions share its connection. The gateway uses the server at the URL.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from mcp_generated import Gateway
from mcp_products.hosting.run import serve_http
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.bridge.state import BridgeSettings
from mcp_products.relay.upstream.target import Target
from mcp_runtime.transports.http_server.app import HTTPLimits

STRESS = Path(__file__).with_name("http_stress.py")
LIMITS = HTTPLimits(body_timeout=2.0)  # As the server itself has them.


async def relay(kind: str, port: int, url: str) -> None:
    """Serve until a signal ends this process."""
    if kind == "gateway":
        gateway = Gateway({"upstreams": {"stress": {"url": url, "prefix": ""}}})
        await gateway.app.run_async("http", port=port, limits=LIMITS, legacy_sse=True)
    else:
        target = Target(command=(sys.executable, str(STRESS), "stdio"))
        bridge = Bridge(target, "mcp_generated", BridgeSettings(shared=1))
        await serve_http(bridge.services(), port=port, limits=LIMITS, legacy_sse=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(relay(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
