"""Play schedules of a simulation, and print the first that fails, as short as it gets: `python -m simulation`.

A seed is a schedule: which calls clients make, what goes wrong when, and how long each step of the store and of the
network takes. The session, stream, store and worker code is the real one. `--from SEED --schedules 1` repeats one.
"""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import sys
import time
from functools import partial
from importlib import import_module
from typing import Any

from simulation import faults

WARM = 10  # Schedules that are played before: an interpreter makes code faster that it has run some times.
BATCH = 250  # Schedules of one process. What they leave is never collected: it ends with its process.


def prepare() -> None:
    """Import and make what all schedules use, before processes are forked that have it."""
    logging.disable(logging.CRITICAL)
    schedules: Any = import_module("simulation.schedules")
    for seed in range(WARM):
        schedules.played(f"warm {seed}")
    schedules.servers.forget()  # What is frozen keeps all that it refers to, and that the next schedules.
    gc.collect()
    gc.freeze()
    gc.disable()


def search(until: float, seeds: range) -> tuple[int, Any]:
    """Play schedules; return how many, and the first that fails."""
    schedules: Any = import_module("simulation.schedules")
    tried = 0
    for seed in seeds:
        if time.monotonic() > until:
            break
        tried += 1
        if (outcome := schedules.played(seed)).violations:
            return tried, schedules.shrunk(outcome)
    return tried, None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=100_000, help="how many at most (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long at most (default: for ever)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: %(default)s)")
    shown = "put a fault back that was mended: a text of the table in docs/reliability.md"
    parser.add_argument("--fault", choices=faults.FAULTS, metavar="FAULT", help=shown)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.schedules)
    until, tried = time.monotonic() + options.seconds, 0
    if options.fault:
        faults.put_back(options.fault)
    prepare()
    batches = [seeds[first : first + BATCH] for first in range(0, len(seeds), BATCH)]
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
        for count, failed in pool.imap(partial(search, until), batches):
            tried += count
            if sys.stderr.isatty():
                print(f"{tried:,} schedules", end="\r", file=sys.stderr, flush=True)
            if failed is not None:
                print(failed)
                return 1
    print(f"{tried} schedules, each promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
