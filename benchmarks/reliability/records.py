"""What the programs of this folder have run, over all their runs: `python benchmarks/reliability/records.py`.

A program with `--record` appends a line to build/reliability/PROGRAM.jsonl, with what it has run and counted, and with
`--go-on` it begins where the last line of the same store and seed has ended. This one prints the sums.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "build" / "reliability"
PROGRAMS = ("kills", "offsets", "soak", "tasks_kills")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a program that can go on where it has ended."""
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="start", help="how many of this seed have run before")
    parser.add_argument("--minutes", type=float, help="run again and again, until so many minutes are over")
    parser.add_argument("--record", action="store_true", help=f"append what was counted to a file in {FOLDER.name}/")
    parser.add_argument("--go-on", action="store_true", help="begin where the record of this store and seed ends")


def lines(program: str) -> list[dict[str, Any]]:
    """Return what was recorded of a program."""
    path = FOLDER / f"{program}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def repeat(program: str, options: argparse.Namespace, run: Callable[[], tuple[dict[str, Any], int, bool]]) -> int:
    """Run a program as often as its options say; print and record what it reports.

    Args:
        program: Its name.
        options: Its options; `start` grows with each run.
        run: Returns a report, how many instants, cuts or calls have run, and whether nothing was wrong.

    Returns 1 if something was wrong in any run.
    """
    began, failed = time.monotonic(), False
    if options.go_on:
        before = [item for item in lines(program) if (item["store"], item["seed"]) == (options.store, options.seed)]
        options.start = max((item["from"] + item["run"] for item in before), default=0)
    while True:
        report, number, is_right = run()
        report = {"store": options.store, "seed": options.seed, "from": options.start, "run": number, **report}
        print(json.dumps(report, indent=1), flush=True)
        if options.record:
            FOLDER.mkdir(parents=True, exist_ok=True)
            with (FOLDER / f"{program}.jsonl").open("a") as file:
                file.write(json.dumps({"right": is_right, **report}) + "\n")
        options.start += number
        failed = failed or not is_right
        if options.minutes is None or time.monotonic() > began + 60 * options.minutes:
            return int(failed)


def main() -> None:
    """Print what was run of each program and store, and how many runs were wrong."""
    for program in PROGRAMS:
        counts: dict[str, Counter[str]] = {}
        for item in lines(program):
            sums = counts.setdefault(item["store"], Counter())
            sums.update(runs=1, total=item["run"], wrong=not item["right"], seconds=item["seconds"])
            sums.update(item.get("injected", {}))
        for store, sums in counts.items():
            print(program, store, dict(sums))


if __name__ == "__main__":
    sys.exit(main())
