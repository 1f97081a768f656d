"""The cost of a tool call in memory, for clients of the server's own version and of other versions."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from typing import Any

from mcp_generated import REVISIONS, v2025_11_25, v2026_07_28
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.bindings.server import serve
from mcp_runtime.transports.memory import MemoryTransport, linked_transports

CALLS, ROUNDS = 2000, 7


def server_of(package: Any) -> Any:
    """Return an echo server of one version."""
    t = package.types

    class Echo(package.Server):  # type: ignore[misc]
        async def call_tool(self, ctx: Any, params: Any) -> Any:
            return t.CallToolResult(content=[t.TextContent(text=params.arguments["text"])])

    return Echo(name="echo", version="1")


async def seconds_per_call(servers: Any, id: str) -> float:
    """Return the CPU time of one call: the minimum of several rounds of pipelined calls."""
    client_side, server_side = linked_transports(MemoryTransport)
    serving = asyncio.create_task(serve(servers, server_side))
    client_info = {"name": "bench", "version": "1"}
    initialize_params = {"protocolVersion": id, "capabilities": {}, "clientInfo": client_info}
    own = "io.modelcontextprotocol/"
    meta = {f"{own}protocolVersion": id, f"{own}clientInfo": client_info, f"{own}clientCapabilities": {}}
    lifecycle = importlib.import_module(f"mcp_generated.{REVISIONS[id]}.methods").REVISION.lifecycle.__class__.__name__
    if lifecycle == "Handshake":
        client_side.send(
            json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params}).encode()
        )
        await client_side.receive()
        client_side.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    params = {"name": "echo", "arguments": {"text": "hello"}} | ({} if lifecycle == "Handshake" else {"_meta": meta})
    calls = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
        for number in range(1, CALLS + 1)
    ]
    minimum = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for call in calls:
            client_side.send(call)
        for _ in calls:
            response = await client_side.receive()
            assert response is not None and b'"result"' in response
        minimum = min(minimum, (time.process_time() - start) / CALLS)
    await client_side.close()
    await serving
    return minimum


async def main() -> None:
    """Print the cost for every pair of versions."""
    print(f"{'handler':12} {'client':12} {'µs/call':>10} {'ratio':>6}")
    for package in (v2025_11_25, v2026_07_28):
        server = server_of(package)
        own = package.methods.REVISION.id
        costs = {id: await seconds_per_call(server_candidates(server), id) for id in REVISIONS}
        for id, cost in costs.items():
            print(f"{own:12} {id:12} {cost * 1e6:10.1f} {cost / costs[own]:6.2f}")


if __name__ == "__main__":
    asyncio.run(main())
