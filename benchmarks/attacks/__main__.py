"""What hostile and large messages cost our server and the official SDK, and what other clients notice of them.

    python benchmarks/attacks [--quick] [--part NAME …] [--only TEXT] [--store DIR]

A process of its own measures each version on each side; the sides alternate. CPU time is that of the process, memory
the growth of its peak, both for each byte of the message. A run has parts, of which each can be run by itself, and
stores its figures in build/attacks; when all parts have figures, the tables are written to
benchmarks/results/attacks.md. All of them take about seven minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from attack_load import served, under_attack
from attack_messages import LARGE_ONES, REVISIONS, attacks

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # Where `measures` and `peers` are.

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE.parent / "results" / "attacks.md"
SMALL, LARGE, LIMIT = (10_000, 300_000), 4_000_000, 7_900_000  # Bytes.
OF_LARGE = ("2026-07-28",)  # The versions that get the large ones as well.
OF_LOAD = ("2025-11-25", "2026-07-28")  # The versions of the attackers.
MICROSECONDS, MEMORY, RATIO, P99 = 1.0, 60.0, 1.5, 250.0
LOAD_SIZE = 300_000
CAPTION = """
CPU is in microseconds, memory in bytes of the peak, both for each byte of the message: the least CPU of three to ten
times, and the memory of the first, in a process of its own for each kind of message, which is a copy of a server that
has answered each kind once. Bounds: 1 µs and 60 bytes for a byte, and 1.5 times what mcp takes where both accept the
size. Memory counts above 3 MiB, which allocators take at any time.
""".strip().splitlines()
MEASURES = tuple(
    f"runtime/mcp_runtime/{name}"
    for name in ("http", "protocol", "server", "session", "transports/http_server", "versions/conversion")
)  # What the figures are about.
SLACK = 3 * 2**20  # Bytes by which a process grows at any time: allocators take memory in steps.

Row = dict[str, Any]


class Sides:
    """What measures the messages of a version on either side."""

    def __init__(self, sdk: Path | None, text: str, quick: bool) -> None:
        """Choose the messages whose name and filling contain a text; `sdk` is an interpreter that has the SDK."""
        self._sdk = sdk
        self._text = text
        self.quick = quick

    def costs(self, revision: str) -> list[list[Row | None]]:
        """Return the costs of ours and of the official SDK, message by message."""
        return self._both(revision, SMALL[:1] if self.quick else SMALL)

    def large_costs(self, revision: str) -> list[list[Row | None]]:
        """Return the costs of large messages, and of the largest, which the official SDK need not accept."""
        if self.quick:
            return self._both(revision, SMALL[1:])
        return self._both(revision, (LARGE,)) + [[row, None] for row in self._measured("ours", revision, (LIMIT,))]

    def _both(self, revision: str, sizes: tuple[int, ...]) -> list[list[Row | None]]:
        ours, theirs = (self._measured(kind, revision, sizes) for kind in ("ours", "sdk"))
        return [[row, other] for row, other in zip(ours, theirs, strict=True)]

    def _measured(self, kind: str, revision: str, sizes: tuple[int, ...]) -> list[Row]:
        paths = os.pathsep.join(str(ROOT / name) for name in ("runtime", "products", "generated"))
        env = {**os.environ, "PYTHONPATH": paths if kind == "ours" else ""}
        python = Path(sys.executable) if kind == "ours" else self._sdk or sdk_environment()
        command = [str(python), str(HERE / "attacked_server.py"), kind, revision, self._text, *map(str, sizes)]
        rows: list[Row] = json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)
        return rows


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


def loads(quick: bool, revision: str) -> list[list[Any]]:
    """Return the latencies of another client during each attack."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("runtime", "products", "generated"))
    rows: list[list[Any]] = []
    with served(Path(sys.executable), {"PYTHONPATH": paths}) as port:
        for number, attack in enumerate(attacks(revision)):
            if attack.name not in LARGE_ONES or (quick and number % 10):
                continue
            seen = asyncio.run(under_attack(port, revision, number, LOAD_SIZE, 0.5 if quick else 1.5))
            figures = [len(seen.milliseconds), seen.at(0.5), seen.at(0.99), seen.refused]
            rows.append([revision, attack.name, attack.filling, *figures])
    return rows


def load_table(rows: Iterable[list[Any]]) -> list[str]:
    """Return a line for each attack."""
    head = "| version | message | filled with | calls | p50 ms | p99 ms | refused | beyond |"
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for revision, name, filling, calls, median, p99, refused in rows:
        beyond = "yes" if p99 > P99 or refused else ""
        lines.append(f"| {revision} | {name} | {filling} | {calls} | {median:.1f} | {p99:.1f} | {refused} | {beyond} |")
    return lines


def sdk_environment() -> Path:
    """Return the interpreter of an environment with the official SDK, which is made once."""
    from peers import environment

    return environment("mcp-2.3.0", "mcp==2.3.0")


def parts(sides: Sides) -> dict[str, Callable[[], list[list[Any]]]]:
    """Return what measures each part, by its name."""
    measuring: dict[str, Callable[[], list[list[Any]]]] = {
        f"costs-{revision}": partial(sides.costs, revision) for revision in REVISIONS
    }
    for revision in OF_LARGE:
        measuring[f"large-{revision}"] = partial(sides.large_costs, revision)
    for revision in OF_LOAD:
        measuring[f"load-{revision}"] = partial(loads, sides.quick, revision)
    return measuring


def report(figures: dict[str, list[list[Any]]]) -> str:
    """Return the tables of the parts that have figures."""
    from measures.machine import measured

    costs = [(row[0], row[1]) for name, rows in figures.items() if not name.startswith("load") for row in rows]
    beyond = sum(bool(is_dear(ours, theirs)) for ours, theirs in costs)
    text = ["# Attacks", "", f"{measured()} Python {platform.python_version()}; mcp is mcp 2.3.0.", ""]
    text += [*CAPTION, "", f"Of {len(costs)} measured messages, {beyond} are beyond a bound.", ""]
    text += table(costs)
    text += ["", f"## Calls of another client while 16 attackers send messages of {LOAD_SIZE:,} bytes", ""]
    text += load_table(row for name, rows in figures.items() if name.startswith("load") for row in rows)
    return "\n".join(text) + "\n"


def main() -> None:
    """Measure, store the figures, and write the tables of all that are stored."""
    names = list(parts(Sides(None, "", False)))
    parser = argparse.ArgumentParser(prog="python benchmarks/attacks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest sizes only, which are not stored")
    parser.add_argument("--part", action="append", choices=names, help="these parts only")
    parser.add_argument("--only", default="", metavar="TEXT", help="messages with this in name and filling; no load")
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "attacks", help="the folder of the figures")
    parser.add_argument("--sdk", type=Path, help="the interpreter of an environment with mcp 2.3.0 and uvicorn")
    options = parser.parse_args()
    measuring = parts(Sides(options.sdk, options.only, options.quick))
    is_whole = not (options.quick or options.only)
    new: dict[str, list[list[Any]]] = {}
    for name in options.part or [name for name in names if not (options.only and name.startswith("load"))]:
        began = time.monotonic()
        new[name] = measuring[name]()
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if is_whole:
            options.store.mkdir(parents=True, exist_ok=True)
            (options.store / f"{name}.json").write_text(json.dumps(new[name]), encoding="utf-8")
    print(report(new))
    stored = {name: options.store / f"{name}.json" for name in names}
    if is_whole and all(path.exists() for path in stored.values()):
        from measures.rounds import write_results

        figures = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in stored.items()}
        write_results(RESULTS, report(figures), MEASURES)


if __name__ == "__main__":
    main()
