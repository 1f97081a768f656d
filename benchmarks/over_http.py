"""What MCP over HTTP costs, in time, processor and memory: our server beside the official SDKs'.

    python benchmarks/over_http.py [--runs 3] [--quick]

Every server has the same `echo` tool and gets the same raw requests, on connections that are kept; those in Python run
on the same uvicorn, with httptools and uvloop. In a run all of them are up, and are asked in turns: few calls of each,
again and again, so that a machine which is now faster, now slower, is so for all of them. The tables are also written to
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
from peers import environment, node_packages
from rich.console import Console
from stdio import BARE, PEER, SDK, TYPESCRIPT, Command, in_turns
from stdio_load import ANSWERING, PROCESSORS
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
    Measure("one_cpu", "CPU µs/call, 1 connection", 0.35, "≤ 0.35", beside=TWICE),
    Measure("one_p50", "p50 ms, 1 connection", 1, "≤ 1"),
    Measure("one_p99", "p99 ms, 1 connection", 1, "≤ 1"),
    Measure("many_calls", "calls/s, 16 connections", 1, "≥ 1", more=True),
    Measure("many_cpu", "CPU µs/call, 16 connections", 0.35, "≤ 0.35", beside=TWICE),
    Measure("many_p50", "p50 ms, 16 connections", 1, "≤ 1"),
    Measure("many_p99", "p99 ms, 16 connections", 1, "≤ 1"),
    Measure("cpu", "CPU µs/call, mean of both", 0.35, "≤ 0.35", beside=TWICE),
    Measure("peak", "peak memory, MiB", 1, "≤ 1"),
)
IDLE = (
    Measure("session", "bytes a session that is idle", 4000, "≤ 4,000", absolute=True),
    Measure("streams", "MB with all sessions and streams open", 250, "≤ 250", absolute=True),
)


def servers() -> tuple[dict[str, Command], list[str]]:
    commands: dict[str, Command] = {
        OURS: [sys.executable, HERE / "http_ours_server.py"],
        PEER: [environment("mcp-http", SDK, *PYTHON), HERE / "http_sdk_server.py"],
    }
    remarks: list[str] = []
    try:
        folder = node_packages("typescript1", TYPESCRIPT[TS])
    except RuntimeError as fault:
        remarks.append(f"{TS} is not measured: {fault}")
    else:
        commands[TS] = ["node", shutil.copy(HERE / "http_typescript1_server.mjs", folder)]
    commands[BARE] = [sys.executable, HERE / "http_bare_server.py"]
    return commands, remarks


def turn(child: HttpChild, load: HttpLoad, stateless: bool) -> dict[str, float]:
    """The figures of one server, asked for a moment."""
    one = asyncio.run(calls(child, load, 1, stateless))
    many = asyncio.run(calls(child, load, 16, stateless))
    taken = {f"one_{name}": figure for name, figure in one.items()}
    taken |= {f"many_{name}": figure for name, figure in many.items()}
    return taken | {"cpu": (one["cpu"] + many["cpu"]) / 2}


def run(
    commands: Mapping[str, Command], load: HttpLoad, quiet: Quiet, stateless: bool
) -> dict[str, list[dict[str, float]]]:
    """The figures of fresh servers, turn by turn; each turn begins with another one."""
    with ExitStack() as stack:
        # Node has threads beside the one that answers, so that it would be slower on fewer processors.
        children = {
            name: stack.enter_context(HttpChild(command, PROCESSORS if command[0] == "node" else ANSWERING))
            for name, command in commands.items()
        }
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        order = list(commands)
        for child in children.values():
            turn(child, replace(load, calls=load.begin), stateless)
        for _ in range(load.turns):
            for name in order:
                child = children[name]
                taken[name].append(quiet.take(partial(turn, child, load, stateless), child.cpu))
            order.append(order.pop(0))
        for name, child in children.items():
            peak = child.memory("VmHWM")
            taken[name] = [{**figures, "peak": peak} for figures in taken[name]]
        return taken


def runs_of(
    commands: Mapping[str, Command], runs: int, load: HttpLoad, quiet: Quiet, stateless: bool
) -> dict[str, list[dict[str, float]]]:
    """The turns of several runs, one run after the other."""
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for number in range(runs):
        for name, figures in run(commands, load, quiet, stateless).items():
            taken[name] += figures
        print(f"run {number + 1} of {runs} is done", file=sys.stderr)
    return taken


def idle_sample(command: Command, load: HttpLoad) -> dict[str, float]:
    with HttpChild(command) as child:
        return asyncio.run(idle(child, load))


def compare(runs: int, load: HttpLoad, keep: bool) -> None:
    console = Console(width=max(Console().width, 150))
    quiet = Quiet(300 if keep else 0)
    commands, remarks = servers()
    modern = {name: command for name, command in commands.items() if name != TS}
    ends = {name: commands[name] for name in (OURS, PEER)}
    typescript = [TS] if TS in commands else []
    shaking = runs_of(commands, runs, load, quiet, stateless=False)
    alone = runs_of(modern, runs, load, quiet, stateless=True)
    resting = in_turns(ends, 1, quiet, partial(idle_sample, load=load))
    tables = [
        (
            "with a session, 2025-11-25",
            headers("server", list(shaking), PEER),
            rows_of_turns(MEASURES, shaking, PEER, typescript),
        ),
        (
            "alone, 2026-07-28",
            headers("server", list(alone), PEER),
            rows_of_turns(MEASURES, alone, PEER, []),
        ),
        (f"{load.sessions:,} sessions at rest", headers("server", list(resting), PEER), rows(IDLE, resting, PEER, [])),
    ]
    remarks.insert(0, f"Medians of {runs * load.turns} turns of {load.calls:,} calls after {load.warm_up:,}, in {runs} "
                      f"runs of fresh processes; a ratio is the median of those of the turns. Python "
                      f"{platform.python_version()}. Requests are made on a processor of their own. Bare is an ASGI "
                      "application that parses and answers. A ✗ marks where ours is slower or larger than TS, or takes "
                      "more than twice the processor time of bare.")  # fmt: skip
    caption = "\n".join(remarks)
    text = f"# Cost of a call over HTTP\n\n{caption}\n"
    for title, heads, table in tables:
        console.print(shown(title, heads, table), "")
        text += f"\n## {title.capitalize()}\n\n{markdown(heads, table)}\n"
    console.print(caption)
    if keep:
        RESULTS.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    compare(1 if given.quick else given.runs, QUICK if given.quick else FULL, not given.quick)


if __name__ == "__main__":
    main()
