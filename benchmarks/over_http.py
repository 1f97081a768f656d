"""Time, CPU and memory of MCP over HTTP: our server compared with the official SDKs.

    python benchmarks/over_http.py [--runs 3] [--quick]

Every server has the same `echo` tool and gets the same raw requests, on persistent connections. Python servers run
on the same uvicorn, with httptools and uvloop. In a run all servers are up and get requests in turn, a few calls each,
so that the varying speed of a machine affects all of them. The tables are also written to
benchmarks/results/http.md, except with --quick.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import resource
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from http_load import HttpChild, HttpLoad, calls, idle
from measures.machine import measured
from measures.rounds import Rounds, write_results
from peers import environment, node_packages
from rich.console import Console
from stdio import BARE, PEER, SDK, TYPESCRIPT, Command, in_turns
from stdio_load import PROCESSORS, SERVER_CPUS
from stdio_quiet import Quiet
from stdio_table import OURS, Measure, headers, markdown, rows, rows_of_turns, shown

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "http.md"
TS = "TS 1.32.2"
PYTHON = ("uvicorn==0.54.0", "httptools==0.9.0", "uvloop==0.23.0")

FULL = HttpLoad(begin=2000, turns=25, warm_up=100, calls=400, sessions=10_000, streams=10_000)
QUICK = HttpLoad(begin=50, turns=2, warm_up=50, calls=100, sessions=200, streams=100)
TWICE = {BARE: 2}

MEASURES = (
    Measure("one_calls", "calls/s, 1 connection", 1, "≥ 1", more=True),
    Measure("one_cpu", "CPU µs/call, 1 connection", 0.35, "≤ 0.35", limits=TWICE),
    Measure("one_p50", "p50 ms, 1 connection", 1, "≤ 1"),
    Measure("one_p99", "p99 ms, 1 connection", 1, "≤ 1"),
    Measure("many_calls", "calls/s, 16 connections", 1, "≥ 1", more=True),
    Measure("many_cpu", "CPU µs/call, 16 connections", 0.35, "≤ 0.35", limits=TWICE),
    Measure("many_p50", "p50 ms, 16 connections", 1, "≤ 1"),
    Measure("many_p99", "p99 ms, 16 connections", 1, "≤ 1"),
    Measure("cpu", "CPU µs/call, mean of both", 0.35, "≤ 0.35", limits=TWICE),
    Measure("peak", "peak memory, MiB", 1, "≤ 1"),
)
IDLE = (
    Measure("session", "bytes per idle session", 4000, "≤ 4,000", absolute=True),
    Measure("streams", "MB with all sessions and streams open", 250, "≤ 250", absolute=True),
)


def servers() -> tuple[dict[str, Command], list[str]]:
    """Return the command of each server, and the reasons for missing ones."""
    commands: dict[str, Command] = {
        OURS: [sys.executable, HERE / "servers" / "http_ours_server.py"],
        PEER: [environment("mcp-http", SDK, *PYTHON), HERE / "servers" / "http_sdk_server.py"],
    }
    remarks: list[str] = []
    try:
        folder = node_packages("typescript1", TYPESCRIPT[TS])
    except RuntimeError as error:
        remarks.append(f"{TS} is not measured: {error}")
    else:
        commands[TS] = ["node", shutil.copy(HERE / "servers" / "http_typescript1_server.mjs", folder)]
    commands[BARE] = [sys.executable, HERE / "servers" / "http_bare_server.py"]
    return commands, remarks


def turn(child: HttpChild, load: HttpLoad, stateless: bool) -> dict[str, float]:
    """Return the values of one turn of one server."""
    one = asyncio.run(calls(child, load, 1, stateless))
    many = asyncio.run(calls(child, load, 16, stateless))
    values = {f"one_{name}": figure for name, figure in one.items()}
    values |= {f"many_{name}": figure for name, figure in many.items()}
    return values | {"cpu": (one["cpu"] + many["cpu"]) / 2}


def run(
    commands: Mapping[str, Command], load: HttpLoad, quiet: Quiet, stateless: bool
) -> dict[str, list[dict[str, float]]]:
    """Return the values of fresh servers for each turn; each turn begins with another server."""
    with ExitStack() as stack:
        # Node has further threads, and would be slower on fewer CPUs.
        children = {
            name: stack.enter_context(HttpChild(command, PROCESSORS if command[0] == "node" else SERVER_CPUS))
            for name, command in commands.items()
        }
        values: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        order = list(commands)
        for child in children.values():
            turn(child, replace(load, calls=load.begin), stateless)
        for _ in range(load.turns):
            for name in order:
                child = children[name]
                values[name].append(quiet.take(partial(turn, child, load, stateless), child.cpu))
            order.append(order.pop(0))
        for name, child in children.items():
            peak = child.memory("VmHWM")
            values[name] = [{**figures, "peak": peak} for figures in values[name]]
        return values


def runs_of(
    commands: Mapping[str, Command], counted: Rounds, load: HttpLoad, quiet: Quiet, stateless: bool
) -> dict[str, list[dict[str, float]]]:
    """Return the turns of several runs; all runs count."""
    values: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for _ in counted:
        for name, figures in run(commands, load, quiet, stateless).items():
            values[name] += figures
    return values


def idle_sample(command: Command, load: HttpLoad) -> dict[str, float]:
    """Return the memory of idle sessions."""
    with HttpChild(command) as child:
        return asyncio.run(idle(child, load))


def compare(runs: int, load: HttpLoad, seconds: float | None, save: bool) -> None:
    """Measure all servers, print the tables, and write them if `save`."""
    console = Console(width=max(Console().width, 150))
    quiet = Quiet((300 if seconds is None else seconds / 6) if save else 0)
    commands, remarks = servers()
    stateless_commands = {name: command for name, command in commands.items() if name != TS}
    both = {name: commands[name] for name in (OURS, PEER)}
    typescript = [TS] if TS in commands else []
    # All rounds are alike here. What remains of the time is for the idle sessions.
    first, second = (Rounds(runs - 1, seconds and 0.35 * seconds) for _ in range(2))
    stateful = runs_of(commands, first, load, quiet, stateless=False)
    stateless = runs_of(stateless_commands, second, load, quiet, stateless=True)
    idle_figures = in_turns(both, Rounds(1), quiet, partial(idle_sample, load=load))
    tables = [
        (
            "with a session, 2025-11-25",
            headers("server", list(stateful), PEER),
            rows_of_turns(MEASURES, stateful, PEER, typescript),
        ),
        (
            "stateless, 2026-07-28",
            headers("server", list(stateless), PEER),
            rows_of_turns(MEASURES, stateless, PEER, []),
        ),
        (
            f"{load.sessions:,} idle sessions",
            headers("server", list(idle_figures), PEER),
            rows(IDLE, idle_figures, PEER, []),
        ),
    ]
    turns = min(len(stateful[OURS]), len(stateless[OURS]))
    remarks.insert(0, f"Medians of {turns} turns of {load.calls:,} calls after {load.warm_up:,}, in "
                      f"{turns // load.turns} runs of fresh processes; a ratio is the median of those of the turns. "
                      f"Python {platform.python_version()}. The client has a CPU of its own. Bare is an ASGI "
                      "application that parses and responds. A ✗ marks where ours is slower or larger than TS, or "
                      "takes more than twice the CPU time of bare.")  # fmt: skip
    caption = "\n".join([*remarks, measured()])
    text = f"# Cost of a call over HTTP\n\n{caption}\n"
    for title, heads, table in tables:
        console.print(shown(title, heads, table), "")
        text += f"\n## {title.capitalize()}\n\n{markdown(heads, table)}\n"
    console.print(caption)
    if save:
        write_results(RESULTS, text)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, help="begin no round that would end later; one is always measured")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    load = QUICK if options.quick else FULL
    compare(1 if options.quick else options.runs, load, options.seconds, not options.quick)


if __name__ == "__main__":
    main()
