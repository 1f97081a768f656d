"""Cost of a call over stdio for each style of server: a class or functions, with a client of the newest version or
with an older one (converted messages), compared with MCPServer of the official SDK and FastMCP.

    python benchmarks/styles.py [--runs 5] [--quick]

Each candidate has the same `echo` tool and gets the same calls, pipelined, in a fresh process. Candidates alternate,
and the first round does not count. Values are medians, ratios are medians of the ratios of the rounds. The table is
also written to benchmarks/results/styles.md, except with --quick.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from measures.machine import measured
from measures.rounds import Rounds, write_results
from peers import environment
from rich.console import Console
from stdio_load import CLIENT_CPUS, NEWEST, REVISION, SERVER_CPUS, Child, Load
from stdio_quiet import Quiet
from stdio_table import markdown, shown

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "styles.md"
OLDEST = "2024-11-05"
FULL = Load(warm_up=3000, sequential=0, pipelined=10_000)
QUICK = Load(warm_up=100, sequential=0, pipelined=500)
WAIT_SECONDS = 300  # In total: to wait for an idle machine, and to repeat measurements.


@dataclass(frozen=True)
class Candidate:
    """A style of server, and the version of its client. `baseline` is the candidate that it is compared with. `target`
    is the maximum ratio of CPU time, or for another implementation the minimum ratio of calls per second."""

    title: str
    client: str
    command: tuple[str | Path, ...]
    baseline: str = ""
    target: float = 0.0


def candidates() -> dict[str, Candidate]:
    """Return all candidates by name."""
    own = (sys.executable, HERE / "servers" / "stdio_styles_server.py")
    sdk, fast = environment("mcp", "mcp==2.3.0"), environment("fastmcp", "fastmcp==4.1.2")
    mcpserver, fastmcp = (
        (sdk, HERE / "servers" / "stdio_mcpserver_server.py"),
        (
            fast,
            HERE / "servers" / "stdio_fastmcp_server.py",
        ),
    )
    return {
        "class": Candidate("class", NEWEST, (*own, "class")),
        "app": Candidate("App", NEWEST, (*own, "app"), "class", 1.5),
        "class, oldest": Candidate("class, converted", OLDEST, (*own, "class"), "class", 1.6),
        "app, oldest": Candidate("App, converted", OLDEST, (*own, "app")),
        "app, peers": Candidate("App, converted", REVISION, (*own, "app")),
        "MCPServer": Candidate("MCPServer (mcp 2.3.0)", REVISION, mcpserver, "app, peers", 8),
        "FastMCP": Candidate("FastMCP 4.1.2", REVISION, fastmcp, "app, peers", 12),
    }


def measure(candidate: Candidate, load: Load) -> tuple[float, float]:
    """Return calls per second, and CPU time of the server in µs per call."""
    os.sched_setaffinity(0, CLIENT_CPUS)
    with Child(candidate.command, load.seconds, candidate.client, SERVER_CPUS) as child:
        child.open()
        child.pipelined(1, load.warm_up)
        cpu = child.cpu()
        seconds = child.pipelined(1 + load.warm_up, load.pipelined)
        return load.pipelined / seconds, (child.cpu() - cpu) / load.pipelined * 1e6


def compare(runs: int, load: Load, seconds: float | None, save: bool) -> None:
    """Measure all candidates, print the table, and write it if `save`."""
    console = Console(width=max(Console().width, 120))
    quiet = Quiet((WAIT_SECONDS if seconds is None else seconds / 6) if save else 0)
    chosen = candidates()
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    order = list(chosen)
    counted = Rounds(runs, seconds)
    for number in counted:
        for name in order:
            sample = quiet.take(lambda name=name: measure(chosen[name], load))  # type: ignore[misc]
            if number:
                samples[name].append(sample)
        order.append(order.pop(0))
    heads = ["server", "client", "calls/s", "CPU µs/call", "compared value", "ratio", "target", "met"]
    table = [_row(name, chosen, samples) for name in chosen]
    caption = (
        f"Medians of {counted.counted} runs of {load.pipelined:,} pipelined calls, after {load.warm_up:,} that do not "
        f"count; a ratio is the median of those of the runs, because the speed of a machine varies. "
        f"The client has a CPU of its own. Handlers are written for {NEWEST}; messages of other versions are converted."
        f"\n{measured()}"
    )
    console.print(shown("one tool over stdio", heads, table), "", caption)
    if save:
        write_results(RESULTS, f"# Cost of the styles of servers\n\n{caption}\n\n{markdown(heads, table)}\n")


def _row(name: str, chosen: dict[str, Candidate], samples: dict[str, list[tuple[float, float]]]) -> list[str]:
    candidate, values = chosen[name], samples[name]
    calls, cpu = (statistics.median(figures) for figures in zip(*values, strict=True))
    cells = [candidate.title, candidate.client, f"{calls:,.0f}", f"{cpu:.1f}"]
    if not candidate.baseline:
        return [*cells, "", "", "", ""]
    rounds = list(zip(values, samples[candidate.baseline], strict=True))
    if candidate.target < 2:
        ratio = statistics.median(cpu / other for (_, cpu), (_, other) in rounds)
        met = ratio <= candidate.target
        return [*cells, "CPU / class", f"{ratio:.2f}", f"≤ {candidate.target}", "yes" if met else "no"]
    ratio = statistics.median(other / calls for (calls, _), (other, _) in rounds)
    met = ratio >= candidate.target
    return [*cells, "calls/s, App / this", f"{ratio:.1f}", f"≥ {candidate.target:g}", "yes" if met else "no"]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="rounds that count")
    parser.add_argument("--quick", action="store_true", help="few calls; writes no results")
    parser.add_argument("--seconds", type=float, help="begin no round that would end later; one is always measured")
    options = parser.parse_args()
    compare(options.runs, QUICK if options.quick else FULL, options.seconds, save=not options.quick)


if __name__ == "__main__":
    main()
