"""Cost of the server that README shows, an App with a plain `def` tool, compared with MCPServer of the official SDK.

    python benchmarks/measures/readme_server.py [--runs 5] [--quick]

Servers get the same calls, in fresh processes that alternate. The first round does not count. Values are medians, and
a ratio is the median of the ratios of the rounds. The table is also written to
benchmarks/results/readme_server.md, except with --quick.

The start is the CPU time from `python server.py` to the first answer, as in benchmarks/start.py, which also has the
first answer of the newest protocol version.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from measures.machine import measured  # noqa: E402
from measures.ports import free_port  # noqa: E402
from peers import environment, ours, ours_with  # noqa: E402
from rich.console import Console  # noqa: E402
from start import HANDSHAKE, HEADERS, META, wait_until_listening  # noqa: E402
from start import over_http as http_start  # noqa: E402
from start import over_stdio as stdio_start  # noqa: E402
from stdio_load import Load, environ, measure  # noqa: E402
from stdio_quiet import Quiet  # noqa: E402
from stdio_table import markdown, shown  # noqa: E402

RESULTS = HERE / "results" / "readme_server.md"
SERVER = HERE / "servers" / "plain_def_server.py"
FULL = Load(warm_up=1000, sequential=2000, pipelined=10_000)
QUICK = Load(warm_up=50, sequential=100, pipelined=300)
WAIT_SECONDS = 120  # In total: to wait for an idle machine, and to repeat measurements.
PEER = "MCPServer (mcp 2.3.0)"
APP, CLASS = "App, plain def", "class, async def"
THREADS, SLOW = "App, transport of threads", "App, no fast paths"

# By value: its title with the unit, whether more is better, and the limits of the ratio to the official SDK, by server.
VALUES: dict[str, tuple[str, bool, dict[str, float]]] = {
    "start_cpu": ("start, ms CPU", False, {APP: 0.30}),
    "sequential": ("sequential, calls/s", True, {APP: 6, THREADS: 2}),
    "pipelined": ("pipelined, calls/s", True, {APP: 20, THREADS: 8}),
    "pipelined_cpu": ("pipelined, µs CPU a call", False, {APP: 1 / 15}),
    "pipelined_peak": ("pipelined, MiB", False, {APP: 0.45}),
    "http_start_cpu": ("HTTP, start, ms CPU", False, {APP: 0.40}),
    "http_cpu": ("HTTP, µs CPU a call", False, {APP: 0.2}),
}

Measurement = Callable[[], dict[str, float]]


def over_stdio(command: list[str | Path], load: Load, *variables: str) -> dict[str, float]:
    """Return the values of a server over stdio."""
    words = ["env", *variables, *command] if variables else command
    return asdict(measure(words, load))


def over_http(command: list[str | Path], load: Load) -> dict[str, float]:
    """Return the CPU time of a call over HTTP, one call after the other on one connection."""
    port = free_port()
    quiet = subprocess.DEVNULL
    with subprocess.Popen([*command, str(port)], stdout=quiet, stderr=quiet, env=environ()) as process:
        try:
            wait_until_listening(port)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            clock = (~process.pid << 3) | 2  # Linux has a clock for each process.
            for number in range(load.warm_up + load.sequential):
                if number == load.warm_up:
                    began = time.clock_gettime(clock)
                _call(connection, number)
            cost = (time.clock_gettime(clock) - began) / load.sequential * 1e6
        finally:
            process.kill()
    return {"http_cpu": cost}


def _call(connection: http.client.HTTPConnection, number: int) -> None:
    params = {"name": "echo", "arguments": {"text": f"text {number}"}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    connection.request("POST", "/mcp", body, {**HEADERS, "Mcp-Name": "echo"})
    answer = connection.getresponse().read().decode()
    if f"text {number}" not in answer:
        raise RuntimeError(f"a wrong answer: {answer}")


def candidates(load: Load) -> dict[str, list[Measurement]]:
    """Return the measurements of each server."""
    own, own_http = ours(), ours_with("http")
    peer = environment("mcp", "mcp==2.3.0")
    app, mcp = [own, SERVER, "ours"], [peer, SERVER, "mcp"]
    mine, theirs = "start_ours_server.py", "start_mcpserver_server.py"
    return {
        PEER: [
            lambda: {"start_cpu": stdio_start(peer, theirs, HANDSHAKE), "http_start_cpu": http_start(peer, theirs)},
            lambda: over_stdio([*mcp], load),
            lambda: over_http([*mcp], load),
        ],
        APP: [
            lambda: {"start_cpu": stdio_start(own, mine, HANDSHAKE), "http_start_cpu": http_start(own_http, mine)},
            lambda: over_stdio([*app], load),
            lambda: over_http([own_http, SERVER, "ours"], load),
        ],
        THREADS: [lambda: over_stdio([*app], load, "MCP_STDIO=threads")],
        SLOW: [lambda: over_stdio([*app], load, "MCP_FAST_PATHS=0")],
        CLASS: [lambda: over_stdio([own, HERE / "servers" / "stdio_ours_server.py"], load)],
    }


def compare(runs: int, load: Load, save: bool) -> None:
    """Measure all servers, print the table, and write it if `save`."""
    quiet = Quiet(WAIT_SECONDS if save else 0)
    chosen = candidates(load)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    for number in range(runs + 1):
        for name, measurements in chosen.items():
            sample: dict[str, float] = {}
            for take in measurements:
                sample |= quiet.take(take)
            if number:
                rounds[name].append(sample)
        print(f"round {number} of {runs} is done", file=sys.stderr)
    table = [row for value in VALUES for row in _rows(value, rounds)]
    caption = (
        f"Medians of {runs} runs of {load.sequential:,} sequential and {load.pipelined:,} pipelined calls over stdio, "
        f"and of {load.sequential:,} over HTTP, each after {load.warm_up:,} that do not count. A ratio is that to "
        f"{PEER}, the median of those of the runs. Python {sys.version.split()[0]}, {os.cpu_count()} processors.\n"
        f"{measured()}"
    )
    heads = ["value", "server", "median", "ratio", "target", "met"]
    console = Console(width=max(Console().width, 110))
    console.print(shown("one plain def tool", heads, table), "", caption)
    if save:
        RESULTS.write_text(f"# Cost of the server of README\n\n{caption}\n\n{markdown(heads, table)}\n")


def _rows(value: str, rounds: dict[str, list[dict[str, float]]]) -> list[list[str]]:
    title, more, limits = VALUES[value]
    rows: list[list[str]] = []
    for name, samples in rounds.items():
        if value not in samples[0]:
            continue
        median = statistics.median(sample[value] for sample in samples)
        rounds_of_both = zip(samples, rounds[PEER], strict=True)
        ratio = statistics.median(sample[value] / peer[value] for sample, peer in rounds_of_both)
        target: list[Any] = ["", ""]
        if (limit := limits.get(name)) is not None:
            met = ratio >= limit if more else ratio <= limit
            target = [f"{'≥' if more else '≤'} {limit:.3g}", "yes" if met else "no"]
        rows.append([title, name, f"{median:,.1f}", "" if name == PEER else f"{ratio:.3g}", *target])
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count")
    parser.add_argument("--quick", action="store_true", help="a short run to test the program; writes no results")
    options = parser.parse_args()
    compare(2 if options.quick else options.runs, QUICK if options.quick else FULL, save=not options.quick)


if __name__ == "__main__":
    main()
