"""What hostile and large messages cost our server and the official SDK, and what other clients notice of them.

    python benchmarks/attacks [--quick] [--only costs|load] [--revision ID …]

A process of its own measures each version on each side; the sides alternate. CPU time is that of the process, memory
the growth of its peak, both for each byte of the message. A full run writes the tables to
benchmarks/results/attacks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attack_load import Latencies, served, under_attack
from attack_messages import LARGE_ONES, REVISIONS, attacks

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE.parent / "results" / "attacks.md"
SMALL, LARGE, LIMIT = (10_000, 300_000), 4_000_000, 7_900_000  # Bytes.
OF_LARGE = ("2026-07-28",)  # The versions that get the large ones as well.
OF_LOAD = ("2025-11-25", "2026-07-28")  # The versions of the attackers.
MICROSECONDS, MEMORY, RATIO, P99 = 1.0, 60.0, 1.5, 250.0
LOAD_SIZE = 300_000
SLACK = 3 * 2**20  # Bytes by which a process grows at any time: allocators take memory in steps.

Row = dict[str, Any]


def measured(kind: str, python: Path, revision: str, sizes: Iterable[int]) -> list[Row]:
    """Return the costs of all messages of a version on one side."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("runtime", "generated"))
    env = {**os.environ, "PYTHONPATH": paths if kind == "ours" else ""}
    command = [str(python), str(HERE / "attacked_server.py"), kind, revision, *map(str, sizes)]
    rows: list[Row] = json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)
    return rows


def measurements(sdk: Path, quick: bool, revisions: Sequence[str]) -> Iterator[tuple[Row, Row | None]]:
    """Yield the costs of ours and of the official SDK, message by message."""
    for revision in revisions:
        sizes = SMALL[:1] if quick else (*SMALL, LARGE) if revision in OF_LARGE else SMALL
        ours = measured("ours", Path(sys.executable), revision, sizes)
        theirs = measured("sdk", sdk, revision, sizes)
        yield from zip(ours, theirs, strict=True)
    if not quick and OF_LARGE[-1] in revisions:
        for row in measured("ours", Path(sys.executable), OF_LARGE[-1], [LIMIT]):
            yield row, None


def is_dear(ours: Row, theirs: Row | None) -> str:
    """Return what is beyond a bound, or nothing. The fixed cost of a small message is not one of its bytes."""
    growth = ours["memory"] * ours["bytes"]
    reasons: list[str] = []
    if ours["cpu"] > MICROSECONDS:
        reasons.append(f"{ours['cpu']:.2f} µs/byte")
    if ours["memory"] > MEMORY and growth > SLACK + MEMORY * ours["bytes"]:
        reasons.append(f"{ours['memory']:.0f} bytes/byte")
    if theirs is not None and served_both(ours, theirs):
        if ours["cpu"] > RATIO * theirs["cpu"]:
            reasons.append(f"{ours['cpu'] / theirs['cpu']:.1f}× CPU")
        if growth > RATIO * theirs["memory"] * ours["bytes"] + SLACK:
            reasons.append(f"{ours['memory'] / max(theirs['memory'], 0.1):.1f}× memory")
    return ", ".join(reasons)


def served_both(ours: Row, theirs: Row) -> bool:
    """Tell whether both sides did the same: a side that refuses a message for its size or version does no work."""
    return (ours["status"] == theirs["status"]) or (ours["status"] < 413 and theirs["status"] < 413)


def table(rows: list[tuple[Row, Row | None]]) -> list[str]:
    """Return a line for each name and filling: the worst of all versions and sizes, for either side."""
    groups: dict[tuple[str, str], list[tuple[Row, Row | None]]] = {}
    for measurement in rows:
        groups.setdefault((measurement[0]["name"], measurement[0]["filling"]), []).append(measurement)
    head = "| message | filled with | CPU, ours | CPU, mcp | worst ratio | memory, ours | memory, mcp | beyond |"
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for (name, filling), group in groups.items():
        ours = [row for row, _ in group]
        both = [(row, other) for row, other in group if other is not None]
        comparable = [row["cpu"] / max(other["cpu"], 1e-6) for row, other in both if served_both(row, other)]
        large = [row for row in ours if row["bytes"] >= SMALL[-1]] or ours
        beyond = sorted({reason for row, other in group if (reason := is_dear(row, other))})
        lines.append(
            f"| {name} | {filling} | {max(row['cpu'] for row in ours):.3f} "
            f"| {max((other['cpu'] for _, other in both), default=0):.3f} | {max(comparable, default=0):.2f} "
            f"| {max(row['memory'] for row in large):.0f} "
            f"| {max((other['memory'] for _, other in both if other['bytes'] >= SMALL[-1]), default=0):.0f} "
            f"| {'; '.join(beyond)} |"
        )
    return lines


def loads(quick: bool, revisions: Sequence[str]) -> Iterator[tuple[str, str, str, Latencies]]:
    """Yield the latencies of another client during each attack."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("runtime", "generated"))
    with served(Path(sys.executable), {"PYTHONPATH": paths}) as port:
        for revision in [revision for revision in OF_LOAD if revision in revisions]:
            for number, attack in enumerate(attacks(revision)):
                if attack.name not in LARGE_ONES or (quick and number % 10):
                    continue
                latencies = asyncio.run(under_attack(port, revision, number, LOAD_SIZE, 1.0 if quick else 1.5))
                yield revision, attack.name, attack.filling, latencies


def load_table(results: Iterable[tuple[str, str, str, Latencies]]) -> list[str]:
    """Return a line for each attack."""
    head = "| version | message | filled with | calls | p50 ms | p99 ms | refused | beyond |"
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for revision, name, filling, latencies in results:
        numbers = (
            f"{len(latencies.milliseconds)} | {latencies.at(0.5):.1f} | {latencies.at(0.99):.1f} | {latencies.refused}"
        )
        beyond = "yes" if latencies.at(0.99) > P99 or latencies.refused else ""
        lines.append(f"| {revision} | {name} | {filling} | {numbers} | {beyond} |")
    return lines


def sdk_environment() -> Path:
    """Return the interpreter of an environment with the official SDK, which is made once."""
    sys.path.insert(0, str(HERE.parent))
    from peers import environment

    return environment("mcp-2.3.0", "mcp==2.3.0")


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(prog="python benchmarks/attacks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest size only; the results are not written")
    parser.add_argument("--only", choices=("costs", "load"), help="one of the two tables; it is not written")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="these versions; nothing is written")
    parser.add_argument("--sdk", type=Path, help="the interpreter of an environment with mcp 2.3.0 and uvicorn")
    options = parser.parse_args()
    revisions = options.revision or REVISIONS
    text = ["# Attacks", "", f"Python {platform.python_version()}, {platform.machine()}; mcp is mcp 2.3.0."]
    if options.only != "load":
        rows = list(measurements(options.sdk or sdk_environment(), options.quick, revisions))
        text += ["", "CPU is in microseconds, memory in bytes of the peak, both for each byte of the message.", ""]
        text += table(rows)
    if options.only != "costs":
        text += ["", f"## Calls of another client while 16 attackers send messages of {LOAD_SIZE:,} bytes", ""]
        text += load_table(loads(options.quick, revisions))
    print("\n".join(text))
    if not (options.quick or options.only or options.revision):
        RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
