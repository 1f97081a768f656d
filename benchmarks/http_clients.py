"""What a sequential call over HTTP costs the process of its client: ours, the bare HTTP clients, and `mcp`.

    python benchmarks/http_clients.py --rounds 7 --calls 300 --markdown benchmarks/results/http_clients.md

Each client runs in a process of its own, one after another in each round, against one server. The figure is the time
of the processor for a call (`time.process_time`), the median of the rounds. A client whose package is not installed, or
that cannot make its calls, is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from socket import create_connection, socket
from typing import Any

SERVER = """
import sys
from mcp_generated import App

app = App("calculator")


@app.tool()
async def add(a: int, b: int) -> int:
    return a + b


app.run("http", port=int(sys.argv[1]))
"""
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PARAMS = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}).encode()
HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": VERSION,
    "mcp-method": "tools/call",
    "mcp-name": "add",
}
Call = Callable[[], Awaitable[Any]]
Measure = Callable[[Call], Awaitable[None]]


async def ours(url: str, measure: Measure) -> None:
    """Call through `Client`, which reads and checks the result."""
    from mcp_generated import Client

    async with Client(url, revisions=VERSION) as client:
        await measure(lambda: client.generated.call_tool("add", {"a": 1, "b": 2}))


async def mcp(url: str, measure: Measure) -> None:
    """Call through the client of the official SDK."""
    from mcp import Client

    async with Client(url) as client:
        await measure(lambda: client.call_tool("add", {"a": 1, "b": 2}))


async def httpx2(url: str, measure: Measure) -> None:
    """Post the same bytes, and read the body."""
    import httpx2

    async with httpx2.AsyncClient() as client:

        async def call() -> None:
            (await client.post(url, content=BODY, headers=HEADERS)).raise_for_status()

        await measure(call)


async def aiohttp(url: str, measure: Measure) -> None:
    """Post the same bytes, and read the body."""
    import aiohttp

    async with aiohttp.ClientSession() as session:

        async def call() -> None:
            async with session.post(url, data=BODY, headers=HEADERS) as response:
                response.raise_for_status()
                await response.read()

        await measure(call)


async def niquests(url: str, measure: Measure) -> None:
    """Post the same bytes, and read the body."""
    import niquests

    async with niquests.AsyncSession() as session:

        async def call() -> None:
            (await session.post(url, data=BODY, headers=HEADERS)).raise_for_status()

        await measure(call)


async def pyreqwest(url: str, measure: Measure) -> None:
    """Post the same bytes, and read the body."""
    from pyreqwest.client import ClientBuilder

    async with ClientBuilder().error_for_status(True).build() as client:

        async def call() -> None:
            response = await client.post(url).headers(HEADERS).body_bytes(BODY).build().send()
            await response.bytes()

        await measure(call)


PLAIN = "ours, over httpx2"  # Without the fast paths.
CLIENTS: dict[str, Callable[[str, Measure], Awaitable[None]]] = {
    "ours": ours,
    PLAIN: ours,
    "httpx2": httpx2,
    "aiohttp": aiohttp,
    "niquests": niquests,
    "pyreqwest": pyreqwest,
    "mcp": mcp,
}


async def cost(name: str, url: str, calls: int) -> float:
    """Return the milliseconds of the processor that a call costs this process, after a tenth as many calls before."""
    costs: list[float] = []

    async def measure(call: Call) -> None:
        for _ in range(calls // 10):
            await call()
        began = time.process_time()
        for _ in range(calls):
            await call()
        costs.append((time.process_time() - began) / calls * 1000)

    await CLIENTS[name](url, measure)
    return costs[0]


def wait_for(port: int) -> None:
    """Wait until the server accepts connections."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("the server has not started")


def main() -> None:
    """Measure all clients in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--markdown", type=Path, help="write the table to this file as well")
    parser.add_argument("--client", choices=CLIENTS, help="measure one client of a running server, for the rounds")
    parser.add_argument("--url")
    options = parser.parse_args()
    if options.client:
        print(asyncio.run(cost(options.client, options.url, options.calls)))
        return
    with closing(socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    measured = {name: list[float]() for name in CLIENTS if name.startswith("ours") or find_spec(name)}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port)
        common = ["--url", f"http://127.0.0.1:{port}/mcp", "--calls", str(options.calls)]
        for _ in range(options.rounds):
            for name in [*measured]:
                command = [sys.executable, __file__, "--client", name, *common]
                paths = {**os.environ, "MCP_FAST_PATHS": "0" if name == PLAIN else "1"}
                child = subprocess.run(command, capture_output=True, text=True, timeout=300, env=paths)
                if child.returncode:
                    print(f"{name} is left out: exit code {child.returncode}: {child.stderr[-300:]}", file=sys.stderr)
                    del measured[name]
                else:
                    measured[name].append(float(child.stdout))
    finally:
        server.terminate()
        server.wait(30)
    medians = {name: statistics.median(values) for name, values in measured.items()}
    others = [name for name in ("httpx2", "aiohttp", "mcp") if name in medians]
    lines = [
        f"| {options.calls} calls, {options.rounds} rounds, Python {platform.python_version()} | CPU a call | "
        + " | ".join(f"ratio to {name}" for name in others)
        + " |",
        "|---" * (len(others) + 2) + "|",
        *(
            f"| {name} | {median:.2f} ms | " + " | ".join(f"{median / medians[other]:.2f}" for other in others) + " |"
            for name, median in medians.items()
        ),
    ]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text(
            "\n".join(["# A sequential call over HTTP, in the process of the client", "", *lines, ""])
        )


if __name__ == "__main__":
    main()
