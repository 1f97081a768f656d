"""Compare this checkout with an earlier one, and the fast paths with their plain twins: time and processor time of a
call.

    python benchmarks/before_after.py --before DIR [--runs 10] [--quick]

DIR is a checkout with a virtual environment in .venv. The candidates take turns, each time in fresh processes, and the
first round does not count. A ratio is that of the medians of all rounds; the one of the lowest values stands beside it,
because what else runs on the machine only adds. The table is also written to benchmarks/results/before_after.md, except
with --quick.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import dataclasses
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from http_load import HttpChild, HttpLoad, calls
from rich.console import Console
from stdio_load import CLIENT_CPUS, NEWEST, SERVER_CPUS, Child, Load, measure
from stdio_table import markdown, shown

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "before_after.md"
BEFORE, NOW, PLAIN = "before", "now", "now, fast paths off"
FULL = (Load(3000, 3000, 20_000), HttpLoad(begin=1000, turns=1, warm_up=200, calls=10_000, sessions=0, streams=0))
COLD_STARTS = 5  # One takes 0.2 s and scatters: a round takes the median of several.
QUICK = (Load(100, 300, 1000), HttpLoad(begin=50, turns=1, warm_up=50, calls=200, sessions=0, streams=0))
STYLES = ("stdio_faces_server.py", "stdio_styles_server.py")  # The name before, and now.

Command = list[str | Path]
Samples = dict[str, dict[str, list[float]]]  # By figure, by candidate.


@dataclass(frozen=True)
class Checkout:
    """A candidate: its root, and words to put before each command."""

    root: Path
    prefix: tuple[str, ...] = ()

    def command(self, *names: str) -> Command:
        """Return the command of the first of these scripts that there is; words after `:` are its arguments."""
        for name in names:
            script, *arguments = name.split(":")
            for folder in ("benchmarks/servers", "benchmarks"):  # The folder now, and before.
                if (path := self.root / folder / script).is_file():
                    return [*self.prefix, self.root / ".venv" / "bin" / "python", path, *arguments]
        raise SystemExit(f"{self.root} has none of {', '.join(names)}")


def stdio(checkout: Checkout, load: Load) -> dict[str, float]:
    """Measure a server over stdio: cold start, sequential and pipelined calls."""
    os.sched_setaffinity(0, CLIENT_CPUS)
    command = checkout.command("stdio_ours_server.py")
    sample = measure(command, load)
    starts = [sample.cold_start, *(measure(command, Load(1, 1, 1)).cold_start for _ in range(COLD_STARTS - 1))]
    return {
        "stdio, cold start, ms": statistics.median(starts),
        "stdio, sequential, µs/call": 1e6 / sample.sequential,
        "stdio, sequential, CPU µs/call": sample.sequential_cpu,
        "stdio, pipelined, µs/call": 1e6 / sample.pipelined,
        "stdio, pipelined, CPU µs/call": sample.pipelined_cpu,
    }


def styles(checkout: Checkout, load: Load) -> dict[str, float]:
    """Measure the class style and the App style, pipelined."""
    measured: dict[str, float] = {}
    for style in ("class", "app"):
        command = checkout.command(*(f"{name}:{style}" for name in STYLES))
        with Child(command, load.seconds, NEWEST, SERVER_CPUS) as child:
            child.open()
            child.pipelined(1, load.warm_up)
            cpu = child.cpu()
            child.pipelined(1 + load.warm_up, load.pipelined)
            measured[f"stdio, 2026-07-28, {style} style, CPU µs/call"] = (child.cpu() - cpu) / load.pipelined * 1e6
    return measured


def http(checkout: Checkout, load: HttpLoad) -> dict[str, float]:
    """Measure a server over HTTP: with a session and stateless, on one connection and on 16."""
    measured: dict[str, float] = {}
    for stateless in (False, True):
        with HttpChild(checkout.command("http_ours_server.py"), SERVER_CPUS) as child:
            for connections in (1, 16):
                asyncio.run(calls(child, dataclasses.replace(load, calls=1000), connections, stateless))  # Warm.
                figures = asyncio.run(calls(child, load, connections, stateless))
                kind = "stateless" if stateless else "session"
                measured[f"HTTP, {kind}, {connections} connections, CPU µs/call"] = figures["cpu"]
    return measured


def imports(checkout: Checkout) -> dict[str, float]:
    """Measure the import of the types and of the server of one revision."""
    measured: dict[str, float] = {}
    for module in ("types", "server"):
        code = (
            "import time, pydantic; pydantic.BaseModel; start = time.process_time(); "
            f"import mcp_generated.v2025_11_25.{module}; print(time.process_time() - start)"
        )
        command = [*checkout.prefix, checkout.root / ".venv" / "bin" / "python", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        measured[f"import of {module}, CPU ms"] = float(done.stdout) * 1e3
    return measured


def rounds(checkouts: dict[str, Checkout], runs: int, loads: tuple[Load, HttpLoad]) -> Samples:
    """Measure each candidate in turn, the first round uncounted."""
    kinds: list[Callable[[Checkout], dict[str, float]]] = [
        lambda checkout: stdio(checkout, loads[0]),
        lambda checkout: styles(checkout, loads[0]),
        lambda checkout: http(checkout, loads[1]),
        imports,
    ]
    samples: Samples = {}
    order = list(checkouts)
    for number in range(runs + 1):
        for kind in kinds:
            for name in order:
                figures = kind(checkouts[name])
                for figure, value in figures.items() if number else ():
                    samples.setdefault(figure, {}).setdefault(name, []).append(value)
        order.append(order.pop(0))
        print(f"round {number} of {runs} is done", file=sys.stderr)
    return samples


def table(samples: Samples) -> list[list[str]]:
    """Return a row for each figure: its medians, and its ratios to this checkout's."""
    rows: list[list[str]] = []
    for figure, by_name in samples.items():
        now = by_name[NOW]
        row = [figure, f"{statistics.median(by_name[BEFORE]):.1f}", f"{statistics.median(now):.1f}"]
        for above, below in ((NOW, BEFORE), (PLAIN, NOW)):
            row += [f"{middle(by_name[above]) / middle(by_name[below]):.2f}" for middle in (statistics.median, min)]
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="an earlier checkout with its .venv")
    parser.add_argument("--runs", type=int, default=10, help="rounds that count")
    parser.add_argument("--quick", action="store_true", help="few calls; writes no results")
    options = parser.parse_args()
    checkouts = {
        BEFORE: Checkout(options.before.resolve()),
        NOW: Checkout(ROOT),
        PLAIN: Checkout(ROOT, ("/usr/bin/env", "MCP_FAST_PATHS=0")),
    }
    for checkout in (options.before, ROOT):
        for folder in ("runtime", "generated"):  # An installation compiles them; a checkout may not.
            compileall.compile_dir(checkout / folder, quiet=1)
    samples = rounds(checkouts, options.runs, QUICK if options.quick else FULL)
    heads = ["figure", BEFORE, NOW, "now / before", "of lowest", "fast paths off / on", "of lowest"]
    caption = f"Medians of {options.runs} rounds, their ratios, and the ratios of the lowest values."
    rows = table(samples)
    Console(width=120).print(shown("before and after", heads, rows), "", caption)
    if not options.quick:
        RESULTS.write_text(f"# Before and after\n\n{caption}\n\n{markdown(heads, rows)}\n")


if __name__ == "__main__":
    main()
