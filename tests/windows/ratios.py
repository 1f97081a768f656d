"""Starts and calls over stdio of a server of ours and of one of the official SDK, in turns. Runs on Windows.

Its arguments are the two interpreters. It prints medians in milliseconds as JSON.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any, Final

OURS: Final = """
from mcp_generated import App

app = App("ratios")

@app.tool
def add(a: int, b: int) -> int:
    return a + b

app.run("stdio")
"""
OFFICIAL: Final = """
from mcp.server import MCPServer

app = MCPServer("ratios")

@app.tool()
def add(a: int, b: int) -> int:
    return a + b

app.run("stdio")
"""
TURNS: Final = 3
CALLS: Final = 100
HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


def ask(server: subprocess.Popen[bytes], fields: dict[str, Any]) -> Any:
    """Send a message, and return the answer if it is a request."""
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline()) if "id" in fields else None


def measure(python: str, source: str) -> tuple[float, float]:
    """Return the seconds until a new server has answered, and those of a call."""
    pipe = subprocess.PIPE
    began = time.perf_counter()
    with subprocess.Popen([python, "-c", source], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as server:
        ask(server, {"id": 0, "method": "initialize", "params": HELLO})
        started = time.perf_counter()
        ask(server, {"method": "notifications/initialized"})
        params = {"name": "add", "arguments": {"a": 1, "b": 2}}
        for id in range(1, CALLS + 1):
            answer = ask(server, {"id": id, "method": "tools/call", "params": params})
            assert answer["result"]["structuredContent"] == {"result": 3}, answer
        ended = time.perf_counter()
        server.kill()
    return started - began, (ended - started) / CALLS


if __name__ == "__main__":
    servers = {"ours": (sys.argv[1], OURS), "official": (sys.argv[2], OFFICIAL)}
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    for turn in range(TURNS + 1):
        for name, (python, source) in servers.items():
            result = measure(python, source)
            if turn:  # The first one compiles.
                measured[name].append(result)
    starts, calls = ({n: statistics.median(m[i] for m in measured[n]) * 1000 for n in servers} for i in (0, 1))
    print(json.dumps({"start": starts, "call": calls}))
