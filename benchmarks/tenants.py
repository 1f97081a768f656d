"""What a tenant at its limit costs another one: the times of the other's calls over HTTP.

    python benchmarks/tenants.py [--turns 9] [--seconds 4]

One server process, 2026-07-28, two tenants that a header names. One makes a call each 5 ms and never meets its limit.
The other one has 100 calls a second, and makes by turns none; as many as that; four times as many; and on 16
connections as many as are answered, without a pause after a refusal. It has a process of its own, with a lower
priority than the one that measures: what its own client costs is not what the server costs. Each turn has a p99 of the
first tenant's calls, and ratios are to that of the turn of the same round in which the other keeps to its limit.
Writes benchmarks/results/tenants.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from http_load import STATELESS, Connection, HttpChild, connect, post
from measures.machine import measured
from measures.rounds import Rounds, write_results
from stdio_table import markdown

RESULTS: Final = Path(__file__).resolve().parent / "results" / "tenants.md"
MEASURES: Final = ("products/mcp_products/tenants", "runtime/mcp_runtime/transports/http_server")
META: Final = "io.modelcontextprotocol/"
LIMIT: Final = 100  # Calls a second of the busy tenant.
PAUSE: Final = 0.005  # Seconds between two calls of the other one.
CONNECTIONS: Final = 16
SERVER: Final = f"""
import sys
from mcp_generated import App, RateLimit
from mcp_generated.tenants import Header, Limits, Tenants

LIMITS = {{"busy": Limits(calls=RateLimit({LIMIT}, burst=10), at_once=4)}}
FULL = Limits(calls=RateLimit(1_000, burst=1_000), at_once=4)
by = Header("X-Tenant", proxies=["127.0.0.0/8"])
app = App("two", tenant=Tenants(by=by, limits=lambda name: LIMITS.get(name, FULL)))


@app.tool
def add(a: int, b: int) -> int:
    return a + b


app.run("http", port=int(sys.argv[1]))
"""
KINDS: Final = {
    "no calls": 0.0,
    "its limit": 1.0,
    "four times its limit": 4.0,
    "as fast as it can": float("inf"),
}
BASE: Final = "its limit"


def call(port: int, tenant: str) -> bytes:
    """Return the request of a call, as a client of this tenant sends it."""
    meta = {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}}
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
    headers = (f"Mcp-Protocol-Version: {STATELESS}", "Mcp-Method: tools/call", "Mcp-Name: add", f"X-Tenant: {tenant}")
    return post(port, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, *headers)


async def busy(connection: Connection, request: bytes, pause: float, first: float, counts: dict[str, int]) -> None:
    """Make calls until this is cancelled: the first after so many seconds, each of the others `pause` after it."""
    await asyncio.sleep(first)
    due = time.perf_counter()
    while True:
        headers, _ = await connection.send(request)
        counts[headers["status"]] = counts.get(headers["status"], 0) + 1
        due += pause
        await asyncio.sleep(max(due - time.perf_counter(), 0))


async def load(port: int, seconds: float, rate: float) -> dict[str, int]:
    """Make the calls of the busy tenant for so long, and return how many had which status."""
    number = CONNECTIONS if rate > 1 else min(int(rate), 1)
    pause = 0.0 if rate == float("inf") else number / (rate * LIMIT) if rate else 0.0
    connections = [await connect(port) for _ in range(number)]
    counts: dict[str, int] = {}
    request = call(port, "busy")
    starts = [pause * place / number for place in range(number)]
    others = [
        asyncio.create_task(busy(each, request, pause, first, counts))
        for each, first in zip(connections, starts, strict=True)
    ]
    print("ready", flush=True)
    await asyncio.sleep(seconds)
    for task in others:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for connection in connections:
        connection.transport.close()
    return counts


async def times_of(port: int, seconds: float) -> list[float]:
    """Return the milliseconds of each call of the other tenant."""
    quiet, times = await connect(port), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        headers, body = await quiet.send(call(port, "quiet"))
        times.append((time.perf_counter() - start) * 1000)
        assert headers["status"] == "200", body
        await asyncio.sleep(PAUSE)
    quiet.transport.close()
    return times


def turn(port: int, seconds: float, rate: float) -> tuple[list[float], dict[str, int]]:
    """Return the milliseconds of each call of the one tenant, and how many of the other's had which status."""
    words = ["nice", "-n", "10", sys.executable, __file__, f"--load={port}", f"--rate={rate}", f"--seconds={seconds}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        times = asyncio.run(times_of(port, seconds))
        return times, json.loads(other.stdout.read())


def percentile(times: Sequence[float], part: int) -> float:
    """Return a percentile of all values."""
    return statistics.quantiles(times, n=100)[part - 1]


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--load", type=int, metavar="PORT", help="only be the busy tenant of this server")
    parser.add_argument("--rate", type=float, help="its calls, as multiples of its limit")
    options = parser.parse_args()
    if options.load:
        print(json.dumps(asyncio.run(load(options.load, options.seconds, options.rate))))
        return
    rounds = Rounds(options.turns)
    halves: dict[str, list[float]] = {kind: [] for kind in KINDS}
    worst: dict[str, list[float]] = {kind: [] for kind in KINDS}
    statuses: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
    with HttpChild([sys.executable, "-c", SERVER]) as server:
        for number in rounds:
            for kind, rate in KINDS.items():
                times, counts = turn(server.port, options.seconds, rate)
                if number:
                    halves[kind].append(percentile(times, 50))
                    worst[kind].append(percentile(times, 99))
                    for status, count in counts.items():
                        statuses[kind][status] = statuses[kind].get(status, 0) + count
    rows = []
    for kind in KINDS:
        answered, refused = statuses[kind].get("200", 0), statuses[kind].get("429", 0)
        assert set(statuses[kind]) <= {"200", "429"}, statuses[kind]
        ratio = statistics.median(each / base for each, base in zip(worst[kind], worst[BASE], strict=True))
        seconds = rounds.counted * options.seconds
        rows.append(
            [
                kind,
                f"{answered / seconds:,.0f}, {refused / seconds:,.0f}",
                f"{statistics.median(halves[kind]):.2f}",
                f"{statistics.median(worst[kind]):.2f}",
                f"{ratio:.2f}",
            ]
        )
    text = f"""# A tenant at its limit

One server process, version {STATELESS}. A tenant makes a call each {PAUSE * 1000:.0f} ms, another one has {LIMIT} calls
a second. The milliseconds of the first tenant's calls, while the other one calls as the first column says: medians of
{rounds.counted} rounds of {options.seconds:g} s. A ratio is that of p99 to the row of its limit in the same round.
{measured()}

"""
    head = ["the other tenant", "its calls a second: answered, refused", "median", "p99", "ratio of p99"]
    write_results(RESULTS, text + markdown(head, rows), MEASURES)
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
