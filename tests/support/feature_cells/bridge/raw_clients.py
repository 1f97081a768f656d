"""Clients of a bridge in this process that write and read JSON, and the raw upstream behind it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.bridge.state import BridgeSettings
from mcp_products.relay.upstream.target import Target
from mcp_runtime.transports.memory import connect_in_memory

RAW = str(Path(__file__).with_name("raw_upstream.py"))


class RawClient:
    """A client of a bridge that writes and reads JSON."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.notifications: list[dict[str, Any]] = []
        self._number = 0

    async def request(self, method: str, params: Any = None) -> bytes:
        """Send a request and return the response as bytes."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": f"r{self._number}", "method": method, "params": params or {}}
        self.transport.send(json.dumps(message).encode())
        return await self.response(f"r{self._number}")

    async def response(self, id: str) -> bytes:
        """Return the next response, which has to have this id; note the notifications before it."""
        while True:
            data: bytes | None = await asyncio.wait_for(self.transport.receive(), 20)
            assert data is not None, "the bridge has closed the connection"
            message = json.loads(data)
            if "method" not in message:
                assert message["id"] == id
                return data
            self.notifications.append(message)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.transport.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    async def call(self, **arguments: Any) -> dict[str, Any]:
        """Return what the tool of the upstream answers."""
        answer = json.loads(await self.request("tools/call", {"name": "t", "arguments": arguments}))
        if "error" in answer:
            return answer  # type: ignore[no-any-return]
        return json.loads(answer["result"]["content"][0]["text"])  # type: ignore[no-any-return]

    async def initialize(self, version: str) -> dict[str, Any]:
        """Open the session, and return the result of `initialize`."""
        client = {"name": "raw client", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        result: dict[str, Any] = json.loads(await self.request("initialize", params))
        self.notify("notifications/initialized", {})
        return result


def target(version: str, *more: str) -> Target:
    """Return the raw upstream of a revision."""
    return Target(command=(sys.executable, "-I", RAW, version, *more))


@asynccontextmanager
async def running(bridge: Bridge) -> AsyncGenerator[Any]:
    """Yield a function that connects a new client to a bridge; all end at the end."""
    connect, clients = connect_in_memory(bridge.candidates()), list[Any]()

    async def client() -> RawClient:
        clients.append(await connect())
        return RawClient(clients[-1])

    async with bridge.lifespan():
        yield client
        for transport in clients:
            await transport.close()


def a_bridge(version: str = "2025-11-25", *more: str, **settings: Any) -> Bridge:
    """Return a bridge to the raw upstream."""
    return Bridge(target(version, *more), "mcp_generated", BridgeSettings(**settings))
