"""Time, CPU and memory of MCP over stdio: our server and client compared with the official SDKs.

    python benchmarks/stdio.py [--runs 5] [--quick] [--flat]

Every server has the same `echo` tool and gets the same raw lines; every client calls the same bare server. The
candidates alternate, each time in a fresh process, so that a slow phase of the machine affects all of them. The first
round does not count. Values are medians, ratios are those of the medians. The tables are also written to
benchmarks/results/stdio.md, except with --quick, a short run that tests the program. --flat instead shows the
memory of our server over 200,000 calls.
"""

from __future__ import annotations

import argparse
import compileall
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path

from measures.machine import measured
from measures.rounds import Rounds, write_results
from peers import environment, node_packages, ours
from rich.console import Console
from stdio_load import REVISION, Load, environ, measure, memory_over
from stdio_quiet import Quiet
from stdio_table import CLIENT, OURS, SERVER, headers, markdown, medians, rows, shown

import mcp_generated
import mcp_runtime

SDK = "mcp==2.3.0"
TYPESCRIPT = {
    "TS 1.32.2": "@modelcontextprotocol/sdk@1.32.2",
    "TS 2.4.0": "@modelcontextprotocol/server@2.4.0",
}
PEER = "mcp 2.3.0"
BARE = "bare"
THREADS = (
    "ours, threads"  # The transport of Windows: at least 8 times the pipelined calls of the peer, and 2 times others.
)
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "stdio.md"

# The warm-up is long enough for the compiler of Node.
FULL = Load(warm_up=5000, sequential=3000, pipelined=20_000)
QUICK = Load(warm_up=100, sequential=300, pipelined=1000)
FLAT = 200_000
WAIT_SECONDS = 600  # In total: to wait for an idle machine, and to repeat measurements.

Command = list[str | Path]


def in_turns(
    candidates: Mapping[str, Command],
    counted: Iterable[int],
    quiet: Quiet,
    measurement: Callable[[Command], dict[str, float]],
) -> dict[str, dict[str, float]]:
    """Return the medians of each candidate. Each round begins with another one; round 0 does not count."""
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in candidates}
    order = list(candidates)
    for number in counted:
        for name in order:
            sample = quiet.take(partial(measurement, candidates[name]))
            if number:
                samples[name].append(sample)
        order.append(order.pop(0))
    return medians(samples)


def servers(sdk: Path) -> tuple[dict[str, Command], list[str]]:
    """Return the command of each server, and the reasons for missing ones."""
    commands: dict[str, Command] = {
        OURS: [ours(), HERE / "servers" / "stdio_ours_server.py"],
        THREADS: [ours(), HERE / "servers" / "stdio_threads_server.py"],
        PEER: [sdk, HERE / "servers" / "stdio_sdk_server.py"],
    }
    reasons: list[str] = []
    for number, (name, package) in enumerate(TYPESCRIPT.items(), 1):
        try:
            folder = node_packages(f"typescript{number}", package)
        except RuntimeError as error:
            reasons.append(f"{name} is not measured: {error}")
        else:
            # Node searches packages in the folder of the script.
            script = shutil.copy(HERE / "servers" / f"stdio_typescript{number}_server.mjs", folder)
            commands[name] = ["node", script]
    commands[BARE] = [ours(), HERE / "servers" / "stdio_bare_server.py"]
    return commands, reasons


def client_sample(command: Command, load: Load) -> dict[str, float]:
    """Run a client against the bare server."""
    counts = [str(count) for count in (load.warm_up, load.sequential, load.pipelined)]
    bare = [sys.executable, str(HERE / "servers" / "stdio_bare_server.py")]
    done = subprocess.run(
        [*command, *counts, *bare], stdout=subprocess.PIPE, text=True, check=True, timeout=load.seconds, env=environ()
    )
    figures = json.loads(done.stdout)
    sample: dict[str, float] = {}
    for name, (calls, cpu) in figures.items():
        sample |= {name: calls, f"{name}_cpu": cpu}
    return sample


def compare(runs: int, load: Load, seconds: float | None, save: bool) -> None:
    """Measure servers and clients, print the tables, and write them if `save`."""
    console = Console(width=max(Console().width, 170))
    quiet = Quiet((WAIT_SECONDS if seconds is None else seconds / 6) if save else 0)
    sdk = environment("mcp", SDK)
    commands, remarks = servers(sdk)
    typescript = [name for name in TYPESCRIPT if name in commands]
    served, called = (Rounds(runs, seconds and share * seconds) for share in (0.75, 0.25))
    by_server = in_turns(commands, served, quiet, lambda command: asdict(measure(command, load)))
    clients: dict[str, Command] = {
        OURS: [ours(), HERE / "stdio_ours_client.py"],
        PEER: [sdk, HERE / "stdio_sdk_client.py"],
    }
    by_client = in_turns(clients, called, quiet, lambda command: client_sample(command, load))
    remarks.append(f"Other processes disturbed {quiet.disturbed} measurements.")
    caption = _caption(min(served.counted, called.counted), load, remarks)
    tables = [
        (f"servers, {REVISION}", headers("server", list(by_server), PEER), rows(SERVER, by_server, PEER, typescript)),
        ("clients of the bare server", headers("client", list(by_client), PEER), rows(CLIENT, by_client, PEER, [])),
    ]
    text = f"# Cost of a call over stdio\n\n{caption}\n"
    for title, heads, table in tables:
        console.print(shown(title, heads, table), "")
        text += f"\n## {title.capitalize()}\n\n{markdown(heads, table)}\n"
    console.print(caption)
    if save:
        write_results(RESULTS, text)


def _caption(runs: int, load: Load, remarks: Iterable[str]) -> str:
    node = "none"
    if shutil.which("node") is not None:
        node_version = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=30)
        node = node_version.stdout.strip()
    lines = [
        f"Medians of {runs} runs of {load.sequential:,} sequential and {load.pipelined:,} pipelined calls, each after "
        f"{load.warm_up:,} that do not count; "
        f"Python {platform.python_version()}, pydantic {version('pydantic')}, Node {node}.",
        "TS is the official TypeScript SDK on Node, bare is a loop that parses and responds without a protocol. "
        "A ✗ marks where ours is slower or larger than TS.",
        *remarks,
        measured(),
    ]
    return "\n".join(lines)


def flat() -> None:
    """Show the resident memory of our server over many calls."""
    figures = memory_over([ours(), HERE / "servers" / "stdio_ours_server.py"], FLAT, 1000, seconds=300)
    for calls, memory in figures:
        print(f"{calls:>8,} calls  RSS {memory:.2f} MiB")
    print(f"from {figures[0][0]:,} to {figures[-1][0]:,} calls it grew by {figures[-1][1] - figures[0][1]:+.2f} MiB")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help="rounds that count (5, or 3 with --quick)")
    parser.add_argument("--quick", action="store_true", help="few calls; writes no results")
    parser.add_argument("--flat", action="store_true", help="only the memory of our server over many calls")
    parser.add_argument("--seconds", type=float, help="begin no round that would end later; one is always measured")
    options = parser.parse_args()
    for folder in (Path(mcp_generated.__file__).parent, Path(mcp_runtime.__file__).parent):
        compileall.compile_dir(folder, quiet=1)  # As pip does for installed packages.
    if options.flat:
        flat()
    else:
        runs = options.runs or (3 if options.quick else 5)
        compare(runs, QUICK if options.quick else FULL, options.seconds, save=not options.quick)


if __name__ == "__main__":
    main()
