"""Compare this checkout with an earlier one, and the fast paths with their plain twins: time and processor time of a
call.

    python benchmarks/before_after.py --before DIR [--now DIR] [--runs 6] [--turns 12] [--quick]

DIR is a checkout with a virtual environment in .venv. In a run the servers of all candidates are up and get calls in
turn, a few hundred each, so that the varying speed of a machine affects all of them. A ratio is the median of those of
the turns. The table is also written to benchmarks/results/before_after.md, except with --quick.
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
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from http_load import HttpChild, HttpLoad, calls
from measures.machine import measured
from rich.console import Console
from stdio_load import CLIENT_CPUS, NEWEST, REVISION, SERVER_CPUS, Child, Load, measure
from stdio_table import markdown, shown

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "before_after.md"
BEFORE, NOW, PLAIN = "before", "now", "now, fast paths off"
FULL = (Load(3000, 400, 2000), HttpLoad(begin=1000, turns=1, warm_up=50, calls=400, sessions=0, streams=0))
QUICK = (Load(100, 100, 500), HttpLoad(begin=50, turns=1, warm_up=10, calls=100, sessions=0, streams=0))
STYLES = ("stdio_faces_server.py", "stdio_styles_server.py")  # The name before, and now.

Command = list[str | Path]
Figures = dict[str, float]
Turn = Callable[[], Figures]  # Measures one candidate for a moment.
Samples = dict[str, list[dict[str, float]]]  # For each figure a list of turns, by candidate.


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


class Stdio:
    """A server over stdio that gets calls in turns, with a handshake or without."""

    def __init__(self, stack: ExitStack, command: Command, load: Load, revision: str = REVISION) -> None:
        os.sched_setaffinity(0, CLIENT_CPUS)
        self._child = stack.enter_context(Child(command, load.seconds, revision, SERVER_CPUS))
        self._child.open()
        self._next = 1
        self._load = load
        self.calls(self._child.pipelined, load.warm_up)

    def calls(self, send: Callable[[int, int], float], count: int) -> tuple[float, float]:
        """Send these calls. Return the time and the processor time of one, in µs."""
        cpu = self._child.cpu()
        seconds = send(self._next, count)
        self._next += count
        return seconds / count * 1e6, (self._child.cpu() - cpu) / count * 1e6

    def sequential_and_pipelined(self) -> Figures:
        sequential = self.calls(self._child.sequential, self._load.sequential)
        pipelined = self.calls(self._child.pipelined, self._load.pipelined)
        return {
            "stdio, sequential, µs/call": sequential[0],
            "stdio, sequential, CPU µs/call": sequential[1],
            "stdio, pipelined, µs/call": pipelined[0],
            "stdio, pipelined, CPU µs/call": pipelined[1],
        }

    def of_style(self, style: str) -> Figures:
        cpu = self.calls(self._child.pipelined, self._load.pipelined)[1]
        return {f"stdio, 2026-07-28, {style} style, CPU µs/call": cpu}


def handshake(stack: ExitStack, checkout: Checkout, load: Load) -> Turn:
    """Start a server for sequential and pipelined calls."""
    return Stdio(stack, checkout.command("stdio_ours_server.py"), load).sequential_and_pipelined


def style(name: str, stack: ExitStack, checkout: Checkout, load: Load) -> Turn:
    """Start a server of the class style or the App style."""
    command = checkout.command(*(f"{script}:{name}" for script in STYLES))
    return partial(Stdio(stack, command, load, NEWEST).of_style, name)


def http(stack: ExitStack, checkout: Checkout, load: HttpLoad) -> Turn:
    """Start a server over HTTP, for calls with a session and stateless ones, on one connection and on 16."""
    child = stack.enter_context(HttpChild(checkout.command("http_ours_server.py"), SERVER_CPUS))

    def turn(load: HttpLoad) -> Figures:
        return {
            f"HTTP, {'stateless' if stateless else 'session'}, {connections} connections, CPU µs/call": asyncio.run(
                calls(child, load, connections, stateless)
            )["cpu"]
            for stateless in (False, True)
            for connections in (1, 16)
        }

    turn(dataclasses.replace(load, calls=load.begin))
    return partial(turn, load)


def starts(stack: ExitStack, checkout: Checkout, load: Load) -> Turn:
    """Prepare fresh processes: a cold start, and the import of the types and of the server of one revision."""
    python = [*checkout.prefix, checkout.root / ".venv" / "bin" / "python"]

    def turn() -> Figures:
        figures = {"stdio, cold start, ms": measure(checkout.command("stdio_ours_server.py"), Load(1, 1, 1)).cold_start}
        for module in ("types", "server"):
            code = (
                "import time, pydantic; pydantic.BaseModel; start = time.process_time(); "
                f"import mcp_generated.v2025_11_25.{module}; print(time.process_time() - start)"
            )
            done = subprocess.run([*python, "-c", code], capture_output=True, text=True, check=True)
            figures[f"import of {module}, CPU ms"] = float(done.stdout) * 1e3
        return figures

    return turn


def run(checkouts: dict[str, Checkout], turns: int, loads: tuple[Load, HttpLoad], samples: Samples) -> None:
    """Add the turns of fresh processes to `samples`; each turn begins with another candidate."""
    kinds: list[Callable[[ExitStack, Checkout], Turn]] = [
        lambda stack, checkout: handshake(stack, checkout, loads[0]),
        lambda stack, checkout: style("class", stack, checkout, loads[0]),
        lambda stack, checkout: style("app", stack, checkout, loads[0]),
        lambda stack, checkout: http(stack, checkout, loads[1]),
        lambda stack, checkout: starts(stack, checkout, loads[0]),
    ]
    order = list(checkouts)
    for kind in kinds:
        with ExitStack() as stack:
            candidates = {name: kind(stack, checkout) for name, checkout in checkouts.items()}
            for _ in range(turns):
                figures = {name: candidates[name]() for name in order}
                for figure in figures[NOW]:
                    samples.setdefault(figure, []).append({name: figures[name][figure] for name in order})
                order.append(order.pop(0))


def table(samples: Samples) -> list[list[str]]:
    """Return a row for each figure: its medians, and the medians of the ratios of its turns."""
    rows: list[list[str]] = []
    for figure, turns in samples.items():
        row = [figure, *(f"{statistics.median(turn[name] for turn in turns):.1f}" for name in (BEFORE, NOW))]
        for above, below in ((NOW, BEFORE), (PLAIN, NOW)):
            row.append(f"{statistics.median(turn[above] / turn[below] for turn in turns):.2f}")
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="an earlier checkout with its .venv")
    parser.add_argument("--now", type=Path, default=ROOT, help="the later checkout; this one by default")
    parser.add_argument("--runs", type=int, default=6, help="runs, each of fresh processes")
    parser.add_argument("--turns", type=int, default=12, help="turns of a run")
    parser.add_argument("--quick", action="store_true", help="few calls; writes no results")
    options = parser.parse_args()
    checkouts = {
        BEFORE: Checkout(options.before.resolve()),
        NOW: Checkout(options.now.resolve()),
        PLAIN: Checkout(options.now.resolve(), ("/usr/bin/env", "MCP_FAST_PATHS=0")),
    }
    for checkout in (options.before, options.now):
        for folder in ("runtime", "products", "generated"):  # An installation compiles them; a checkout may not.
            compileall.compile_dir(checkout / folder, quiet=1)
    samples: Samples = {}
    runs, turns = (1, 2) if options.quick else (options.runs, options.turns)
    for number in range(runs):
        run(checkouts, turns, QUICK if options.quick else FULL, samples)
        print(f"run {number + 1} of {runs} is done", file=sys.stderr)
    heads = ["figure", BEFORE, NOW, "now / before", "fast paths off / on"]
    caption = f"Medians of {runs * turns} turns in {runs} runs of fresh processes, and the medians of their ratios."
    caption += f"\n{measured()}"
    rows = table(samples)
    Console(width=120).print(shown("before and after", heads, rows), "", caption)
    if not options.quick:
        RESULTS.write_text(f"# Before and after\n\n{caption}\n\n{markdown(heads, rows)}\n")


if __name__ == "__main__":
    main()
