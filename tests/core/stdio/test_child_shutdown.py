"""A server may take its time to end, and speak while it does: nobody closes the pipe it writes to."""

from __future__ import annotations

import asyncio
import sys

from mcp_generated.v2025_11_25 import Client

LATE = """
import json, sys, time
hello = json.loads(sys.stdin.readline())
info = {"name": "late", "version": "1"}
result = {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": info}
print(json.dumps({"jsonrpc": "2.0", "id": hello["id"], "result": result}), flush=True)
for line in sys.stdin:
    pass
time.sleep(0.1)  # Until the client has closed all that it closes at once.
last = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 200_000}}
print(json.dumps(last), flush=True)
print("ended well", file=sys.stderr, flush=True)
"""


def test_a_server_can_write_while_it_ends() -> None:
    lines: list[str] = []

    async def conversation() -> None:
        async with Client.stdio(sys.executable, "-c", LATE, stderr=lines.append):
            pass

    asyncio.run(asyncio.wait_for(conversation(), 20))
    assert lines == ["ended well"]
