"""What each fast path buys: README's App and a class, with one path off at a time, in turns with all of them on.

    python benchmarks/fast_paths.py [--only NAME …] [--runs 3] [--turns 6] [--quick]

The server with a path and the one without it are up at the same time and get calls in turn, a few hundred each, so that
the varying speed of a machine affects both. A gain is how much more a call takes without the path. Parts of a path are
measured among servers that both lack the rest, see `on`. A path that gains less than 15 % in each figure is to be
deleted; a gain counts if each run shows 10 %. The tables are also written to benchmarks/results/fast_paths.md, except
with --quick and --only.
"""

from __future__ import annotations

import argparse
import compileall
import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from measures.fast_path_forms import FORMS, Figures, Form, bridge, memory
from measures.machine import measured
from measures.rounds import write_results
from peers import ROOT, ours_with
from stdio_table import markdown

RESULTS = Path(__file__).resolve().parent / "results" / "fast_paths.md"
SAMPLES = ROOT / "build" / "fast_paths.json"
ENOUGH = 0.15  # The gain that keeps a fast path,
LEAST = 0.10  # and what each run has to show of it.
EXACT = (", CPU", "bytes")  # What other programs on the machine do not change.

Run = Sequence[tuple[Figures, Figures]]  # The figures of turns, with a path and without it.
Samples = dict[str, list[Run]]  # By path.


@dataclass(frozen=True)
class FastPath:
    """A fast path: its title, what the server lacks without it, and what both servers lack, as in without.py."""

    title: str
    off: str
    on: str = "-"
    forms: Sequence[Form] = ()  # What measures it, if that is not FORMS.


# By a name for --only.
PATHS = {
    "none": FastPath("nothing: two equal servers", "-"),
    "eager": FastPath("eager tasks of Python 3.11", "eager"),
    "threads": FastPath("worker threads: all below, a plain pool instead", "pool,reading"),
    "pool": FastPath("worker threads without the reading thread: a plain pool", "pool,reading", "reading"),
    "waits": FastPath("· the loop waits briefly", "waits,reading", "reading"),
    "reading": FastPath("a thread reads in the loop's place", "reading"),
    "polling": FastPath("busy polling", "polling"),
    "polling-alone": FastPath("busy polling without the reading thread", "polling,reading", "reading"),
    "selector": FastPath("selector that calls back itself, alone", "selector,reading", "reading,polling"),
    "stdio-loop": FastPath("selector, busy polling and reading thread together", "selector,reading"),
    "records": FastPath("records beside models", "records"),
    "answers": FastPath("answers as JSON", "answers"),
    "scalars": FastPath("argument schemas of scalars", "scalars"),
    "messages": FastPath("the last three together", "records,answers,scalars"),
    "whole": FastPath("whole requests and responses of uvicorn", "whole"),
    "held": FastPath("streams without a request", "held"),
    "heads": FastPath("cache of request heads", "heads"),
    "held-memory": FastPath("streams without a request", "held", forms=(memory,)),
    "parts-memory": FastPath("small parts of uvicorn's connections", "small-parts", forms=(memory,)),
    "lines": FastPath("bridge: lines that pass as text", "lines", forms=(bridge,)),
    "http-client": FastPath("plain requests of clients, in a bridge", "http-client", forms=(bridge,)),
}


def compare(python: Path, path: FastPath, turns: int) -> Iterator[tuple[Figures, Figures]]:
    """Yield the figures of turns of fresh processes, with the path and without it."""
    for form in path.forms or FORMS:
        with ExitStack() as stack:
            both = [form(stack, python, names) for names in (path.on, path.off)]
            for number in range(turns):
                order = (0, 1) if number % 2 else (1, 0)
                taken = {place: both[place]() for place in order}
                yield taken[0], taken[1]


def gains_by_run(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Return by figure how much more it is without a path, in percent, in each run.

    Of a run, processor time is the median of the ratios of two turns in a row, which begin with different servers: the
    first one of a turn may be the slower one. Time is the ratio of the lower quartiles, because what other programs
    take from a turn only adds to it.
    """
    by_run: dict[str, list[float]] = {}
    for turns in runs:
        for figure in dict.fromkeys(name for on, _ in turns for name in on):
            pairs = [(on[figure], off[figure]) for on, off in turns if figure in on]
            if figure.endswith(EXACT):
                ratios = [off / on for on, off in pairs]
                ratio = statistics.median(math.sqrt(first * second) for first, second in pairwise(ratios))
            else:
                lower = [statistics.quantiles(each, n=4, method="inclusive")[0] for each in zip(*pairs, strict=True)]
                ratio = lower[1] / lower[0]
            by_run.setdefault(figure, []).append((ratio - 1) * 100)
    return by_run


def gains(runs: Sequence[Run]) -> Figures:
    """Return the medians of the gains of runs, by figure."""
    return {figure: statistics.median(values) for figure, values in gains_by_run(runs).items()}


def largest(runs: Sequence[Run]) -> tuple[str, float, bool]:
    """Return the figure with the largest gain, the gain, and whether it keeps a path.

    A gain counts if each run has most of it: in one run, equal servers differ by as much.
    """
    by_run = gains_by_run(runs)
    counting = [figure for figure, values in by_run.items() if min(values) >= LEAST * 100]
    figures = counting or [figure for figure in by_run if figure.endswith(EXACT)]
    figure = max(figures, key=lambda name: statistics.median(by_run[name]))
    gain = statistics.median(by_run[figure])
    return figure, gain, gain >= ENOUGH * 100 and min(by_run[figure]) >= LEAST * 100


def table(names: Sequence[str], samples: Samples, figures: Sequence[str]) -> list[list[str]]:
    """Return a row for each path with its gains: of time and, after a stroke, of CPU time."""
    rows: list[list[str]] = []
    for name in names:
        own = gains(samples[name])
        cells = [
            " / ".join(f"{own[each]:+.0f}" for each in (figure, f"{figure}, CPU") if each in own) for figure in figures
        ]
        rows.append([PATHS[name].title, *cells])
    return rows


def verdicts(names: Sequence[str], samples: Samples) -> list[list[str]]:
    """Return a row for each path with its largest gain, and what follows."""
    rows: list[list[str]] = []
    for name in names:
        figure, gain, is_enough = largest(samples[name])
        verdict = "" if name == "none" else "keep" if is_enough else "delete"
        rows.append([PATHS[name].title, f"{gain:+.0f} %", figure, verdict])
    return rows


def elsewhere(names: Sequence[str], samples: Samples) -> list[list[str]]:
    """Return a row for each figure of what is neither README's App nor an endpoint: its medians and its gain."""
    rows: list[list[str]] = []
    for name in names:
        turns = [turn for run in samples[name] for turn in run]
        for figure, gain in gains(samples[name]).items():
            both = (statistics.median(turn[place][figure] for turn in turns) for place in (0, 1))
            unit = "" if "bytes" in figure else " µs"
            rows.append([PATHS[name].title, figure, *(f"{value:,.0f}{unit}" for value in both), f"{gain:+.0f} %"])
    return rows


def written(samples: Samples, caption: str) -> str:
    """Return the page of results."""
    names, others = ([name for name in samples if bool(PATHS[name].forms) == is_other] for is_other in (False, True))
    stdio_figures = ["start", "HTTP start", "sequential", "pipelined", "sequential, any CPU", "pipelined, any CPU"]
    http_figures = [
        f"HTTP, {what}, {kind}, {count}"
        for what in ("App", "class")
        for kind in ("session", "stateless")
        for count in (1, 16)
    ]
    heads = [figure.removeprefix("HTTP, ") for figure in http_figures]
    parts = [
        "# What each fast path buys",
        caption,
        markdown(["fast path", "largest gain", "of", "verdict"], verdicts(names, samples)),
        "README's App over stdio: gain in time / in CPU time of the server, in %.",
        markdown(["fast path", *stdio_figures], table(names, samples, stdio_figures)),
        "Over HTTP, on one connection and on sixteen: gain in time / in CPU time of the server, in %.",
        markdown(["fast path", *heads], table(names, samples, http_figures)),
        "Elsewhere.",
        markdown(["fast path", "figure", "with", "without", "gain"], elsewhere(others, samples)),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PATHS, default=[*PATHS], help="these paths; writes no results")
    parser.add_argument("--runs", type=int, default=3, help="runs, each of fresh processes")
    parser.add_argument("--turns", type=int, default=6, help="turns of a run")
    parser.add_argument("--quick", action="store_true", help="one run of two turns; writes no results")
    options = parser.parse_args()
    for folder in ("runtime", "products", "generated"):
        compileall.compile_dir(ROOT / folder, quiet=1)
    python = ours_with("http")
    runs, turns = (1, 2) if options.quick else (options.runs, options.turns)
    samples: Samples = {name: [] for name in options.only}
    for number in range(runs):
        for name in options.only:
            samples[name].append([*compare(python, PATHS[name], turns)])
            measured_gains = {figure: f"{gain:+.0f}" for figure, gain in gains(samples[name]).items()}
            print(f"run {number + 1} of {runs}, {name}: {measured_gains}", file=sys.stderr, flush=True)
    if not options.quick and options.only == [*PATHS]:
        SAMPLES.write_text(json.dumps(samples))
        caption = (
            f"Medians of {runs} runs of fresh processes, each of {turns} turns with a path and without it. A gain is "
            f"how much more a call takes without it. Python {sys.version.split()[0]}.\n{measured()}"
        )
        write_results(RESULTS, written(samples, caption), ["benchmarks/servers/without.py"])


if __name__ == "__main__":
    main()
