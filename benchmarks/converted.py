"""Nothing goes in; what a tool call costs comes out: for a client of the server's own revision, and for older ones."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from typing import Any

from mcp_generated import REVISIONS, v2025_11_25, v2026_07_28
from mcp_runtime.versions.candidates import server_candidates
from mcp_runtime.bindings.server import serve
from mcp_runtime.transports.memory import MemoryTransport, linked_transports

CALLS, ROUNDS = 2000, 7


def server_of(package: Any) -> Any:
    t = package.types

    class Echo(package.Server):  # type: ignore[misc]
        async def call_tool(self, ctx: Any, params: Any) -> Any:
            return t.CallToolResult(content=[t.TextContent(text=params.arguments["text"])])

    return Echo(name="echo", version="1")


async def seconds_per_call(servers: Any, id: str) -> float:
    """CPU time of one call, of many that are sent at once; the least of some rounds."""
    ours, theirs = linked_transports(MemoryTransport)
    serving = asyncio.create_task(serve(servers, theirs))
    who = {"name": "bench", "version": "1"}
    hello = {"protocolVersion": id, "capabilities": {}, "clientInfo": who}
    own = "io.modelcontextprotocol/"
    meta = {f"{own}protocolVersion": id, f"{own}clientInfo": who, f"{own}clientCapabilities": {}}
    shakes = importlib.import_module(f"mcp_generated.{REVISIONS[id]}.methods").REVISION.lifecycle.__class__.__name__
    if shakes == "Handshake":
        ours.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode())
        await ours.receive()
        ours.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    params = {"name": "echo", "arguments": {"text": "hello"}} | ({} if shakes == "Handshake" else {"_meta": meta})
    calls = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
        for number in range(1, CALLS + 1)
    ]
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for call in calls:
            ours.send(call)
        for _ in calls:
            answer = await ours.receive()
            assert answer is not None and b'"result"' in answer
        best = min(best, (time.process_time() - begun) / CALLS)
    await ours.close()
    await serving
    return best


async def main() -> None:
    print(f"{'handler':12} {'client':12} {'µs a call':>10} {'ratio':>6}")
    for package in (v2025_11_25, v2026_07_28):
        server = server_of(package)
        own = package.methods.REVISION.id
        costs = {id: await seconds_per_call(server_candidates(server), id) for id in REVISIONS}
        for id, cost in costs.items():
            print(f"{own:12} {id:12} {cost * 1e6:10.1f} {cost / costs[own]:6.2f}")


if __name__ == "__main__":
    asyncio.run(main())
