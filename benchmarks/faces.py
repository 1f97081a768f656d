"""What the ways to write a server cost a call over stdio: class or decorators, a client of the newest revision or an
older one whose messages are converted, beside MCPServer of the official SDK and FastMCP.

    python benchmarks/faces.py [--runs 5] [--quick]

Each candidate has the same `echo` tool and gets the same calls, pipelined, in a fresh process; they take turns, and the
first round does not count. Figures are medians, ratios those of the rounds. The table is also written to
benchmarks/results/faces.md, except with --quick.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from peers import environment
from rich.console import Console
from stdio_load import ANSWERING, ASKING, NEWEST, REVISION, Child, Load
from stdio_quiet import Quiet
from stdio_table import markdown, shown

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "faces.md"
OLDEST = "2024-11-05"
FULL = Load(warm_up=3000, sequential=0, pipelined=10_000)
QUICK = Load(warm_up=100, sequential=0, pipelined=500)
PATIENCE = 300  # Seconds, in all, to wait for a machine at rest, or to measure again.


@dataclass(frozen=True)
class Candidate:
    """A way to write the server, and the client that calls it. `target` is what its processor time may be of that of
    `beside`, at most, or what its calls a second may be, at most, where it is a peer's."""

    title: str
    client: str
    command: tuple[str | Path, ...]
    beside: str = ""
    target: float = 0.0


def candidates() -> dict[str, Candidate]:
    ours = (sys.executable, HERE / "stdio_faces_server.py")
    sdk, fast = environment("mcp", "mcp==2.3.0"), environment("fastmcp", "fastmcp==4.1.2")
    mcpserver, fastmcp = (sdk, HERE / "stdio_mcpserver_server.py"), (fast, HERE / "stdio_fastmcp_server.py")
    return {
        "class": Candidate("class", NEWEST, (*ours, "class")),
        "app": Candidate("App", NEWEST, (*ours, "app"), "class", 1.5),
        "class, oldest": Candidate("class, converted", OLDEST, (*ours, "class"), "class", 1.6),
        "app, oldest": Candidate("App, converted", OLDEST, (*ours, "app")),
        "app, peers": Candidate("App, converted", REVISION, (*ours, "app")),
        "MCPServer": Candidate("MCPServer (mcp 2.3.0)", REVISION, mcpserver, "app, peers", 8),
        "FastMCP": Candidate("FastMCP 4.1.2", REVISION, fastmcp, "app, peers", 12),
    }


def measured(candidate: Candidate, load: Load) -> tuple[float, float]:
    """Calls a second, and µs of the server's processor time a call."""
    os.sched_setaffinity(0, ASKING)
    with Child(candidate.command, load.seconds, candidate.client, ANSWERING) as child:
        child.open()
        child.pipelined(1, load.warm_up)
        cpu = child.cpu()
        seconds = child.pipelined(1 + load.warm_up, load.pipelined)
        return load.pipelined / seconds, (child.cpu() - cpu) / load.pipelined * 1e6


def compare(runs: int, load: Load, keep: bool) -> None:
    console = Console(width=max(Console().width, 120))
    quiet = Quiet(PATIENCE if keep else 0)
    every = candidates()
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in every}
    order = list(every)
    for number in range(runs + 1):
        for name in order:
            sample = quiet.take(lambda name=name: measured(every[name], load))  # type: ignore[misc]
            if number:
                samples[name].append(sample)
        order.append(order.pop(0))
        print(f"round {number} of {runs} is done", file=sys.stderr)
    heads = ["server", "client", "calls/s", "CPU µs/call", "what is compared", "ratio", "target", "met"]
    table = [_row(name, every, samples) for name in every]
    caption = (
        f"Medians of {runs} runs of {load.pipelined:,} pipelined calls, after {load.warm_up:,} that do not count; a "
        f"ratio is the median of those of the runs, since a machine is now faster, now slower. "
        f"Calls are made on a processor of their own. Handlers are written for {NEWEST}; a client of another revision is served by converting."
    )
    console.print(shown("one tool over stdio", heads, table), "", caption)
    if keep:
        RESULTS.write_text(f"# Cost of the ways to write a server\n\n{caption}\n\n{markdown(heads, table)}\n")


def _row(name: str, every: dict[str, Candidate], samples: dict[str, list[tuple[float, float]]]) -> list[str]:
    candidate, taken = every[name], samples[name]
    calls, cpu = (statistics.median(figures) for figures in zip(*taken, strict=True))
    cells = [candidate.title, candidate.client, f"{calls:,.0f}", f"{cpu:.1f}"]
    if not candidate.beside:
        return [*cells, "", "", "", ""]
    rounds = list(zip(taken, samples[candidate.beside], strict=True))
    if candidate.target < 2:
        ratio = statistics.median(cpu / other for (_, cpu), (_, other) in rounds)
        met = ratio <= candidate.target
        return [*cells, "CPU, of the class style's", f"{ratio:.2f}", f"≤ {candidate.target}", "yes" if met else "no"]
    ratio = statistics.median(other / calls for (calls, _), (other, _) in rounds)
    met = ratio >= candidate.target
    return [*cells, "calls/s, App's of its", f"{ratio:.1f}", f"≥ {candidate.target:g}", "yes" if met else "no"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count")
    parser.add_argument("--quick", action="store_true", help="few calls; writes no results")
    chosen = parser.parse_args()
    compare(chosen.runs, QUICK if chosen.quick else FULL, keep=not chosen.quick)


if __name__ == "__main__":
    main()
