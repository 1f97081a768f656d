"""Medians of the candidates go in, rows with ratios and verdicts come out, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

Medians = Mapping[str, Mapping[str, float]]  # By candidate, then by measure.

OURS: Final = "ours"


@dataclass(frozen=True)
class Measure:
    """One row. `target` is what ours / the Python SDK's may be, or, where it is `absolute`, what ours alone may be: at
    least where `more` is better, else at most."""

    name: str
    title: str
    target: float
    shown: str
    more: bool = False
    absolute: bool = False

    def is_met(self, ours: float, peers: float) -> bool:
        return self.meets(ours if self.absolute else ours / peers, self.target)

    def meets(self, ratio: float, target: float) -> bool:
        return ratio >= target if self.more else ratio <= target


SERVER: Final = (
    Measure("cold_start", "cold start to first answer, ms", 0.35, "≤ 0.35"),
    Measure("sequential", "sequential calls/s", 2.5, "≥ 2.5", more=True),
    Measure("sequential_cpu", "sequential CPU µs/call", 1 / 12, "≤ 1/12"),
    Measure("pipelined", "pipelined calls/s", 18, "≥ 18", more=True),
    Measure("pipelined_cpu", "pipelined CPU µs/call", 1 / 12, "≤ 1/12"),
    Measure("sequential_peak", "peak memory, sequential, MiB", 0.45, "≤ 0.45"),
    Measure("pipelined_peak", "peak memory, pipelined, MiB", 0.45, "≤ 0.45"),
)

CLIENT: Final = (
    Measure("sequential", "sequential calls/s", 1, "≥ 1", more=True),
    Measure("sequential_cpu", "sequential CPU µs/call", 1 / 4, "≤ 1/4"),
    Measure("in_flight", "100 in flight, calls/s", 1, "≥ 1", more=True),
    Measure("in_flight_cpu", "100 in flight, CPU µs/call", 1 / 4, "≤ 1/4"),
)


def headers(what: str, candidates: Sequence[str], peer: str) -> list[str]:
    others = [name for name in candidates if name not in (OURS, peer)]
    return [what, *candidates, f"ours/{peer}", "target", "met", *(f"ours/{other}" for other in others)]


def rows(measures: Sequence[Measure], medians: Medians, peer: str, not_slower: Sequence[str]) -> list[list[str]]:
    """A row a measure. Behind a ratio to a peer that we may not be slower than, a ✗ says that we are."""
    table: list[list[str]] = []
    for measure in measures:
        figures = {name: values[measure.name] for name, values in medians.items()}
        ours = figures[OURS]
        ratio = ours / figures[peer]
        cells = [measure.title, *(_figure(figure) for figure in figures.values())]
        cells += [_ratio(ratio), measure.shown, "yes" if measure.is_met(ours, figures[peer]) else "no"]
        for other in figures:
            if other not in (OURS, peer):
                ratio = ours / figures[other]
                worse = other in not_slower and not measure.meets(ratio, 1)
                cells.append(_ratio(ratio) + (" ✗" if worse else ""))
        table.append(cells)
    return table


def shown(title: str, heads: Sequence[str], table: Sequence[Sequence[str]]) -> Table:
    made = Table(title=title, box=None, title_justify="left")
    for number, head in enumerate(heads):
        made.add_column(head, justify="right" if number else "left", no_wrap=True)
    for cells in table:
        made.add_row(*cells)
    return made


def markdown(heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *table]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.2 else f"{value:.2f} (1/{1 / value:.1f})"
