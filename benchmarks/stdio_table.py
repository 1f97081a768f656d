"""Tables of medians with ratios and targets, for the terminal and as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rich.table import Table

Medians = Mapping[str, Mapping[str, float]]  # By candidate, then by measure.
Turns = Mapping[
    str, Sequence[Mapping[str, float]]
]  # The same for each turn; all candidates have the same number of turns.

OURS: Final = "ours"


@dataclass(frozen=True)
class Measure:
    """One row of a table.

    `target` limits the ratio of ours to the Python SDK, or our own value if `absolute`: a minimum if `more` is better,
    else a maximum. `limits` are the same for other candidates, by name.
    """

    name: str
    title: str
    target: float
    shown: str
    more: bool = False
    absolute: bool = False
    limits: Mapping[str, float] = field(default_factory=dict[str, float])

    def is_met(self, ours: float, ratio: float) -> bool:
        """Return True if our value or ratio meets the target."""
        return self.meets(ours if self.absolute else ratio, self.target)

    def meets(self, ratio: float, target: float) -> bool:
        """Return True if a ratio meets a target."""
        return ratio >= target if self.more else ratio <= target


SERVER: Final = (
    Measure("cold_start", "cold start to first response, ms", 0.35, "≤ 0.35"),
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
    """Return the heads of the columns."""
    others = [name for name in candidates if name not in (OURS, peer)]
    return [what, *candidates, f"ours/{peer}", "target", "met", *(f"ours/{other}" for other in others)]


def medians(turns: Turns) -> dict[str, dict[str, float]]:
    """Return the medians of all turns."""
    return {name: {measure: statistics.median(value[measure] for value in values) for measure in values[0]}
            for name, values in turns.items()}  # fmt: skip


def rows(measures: Sequence[Measure], figures: Medians, peer: str, not_slower: Sequence[str]) -> list[list[str]]:
    """Return one row for each measure. A ✗ after a ratio marks a candidate that is faster than we are and must not
    be."""
    return [_row(row, figures, peer, not_slower, partial(_of_medians, figures, row.name)) for row in measures]


def rows_of_turns(measures: Sequence[Measure], turns: Turns, peer: str, not_slower: Sequence[str]) -> list[list[str]]:
    """Return the same rows with medians of the ratios of the turns, because the speed of a machine varies."""
    figures = medians(turns)
    return [_row(row, figures, peer, not_slower, partial(_of_turns, turns, row.name)) for row in measures]


def _row(
    measure: Measure, figures: Medians, peer: str, not_slower: Sequence[str], ratio: Callable[[str], float]
) -> list[str]:
    own = {name: values[measure.name] for name, values in figures.items()}
    cells = [measure.title, *(_figure(figure) for figure in own.values())]
    cells += [_ratio(ratio(peer)), measure.shown, "yes" if measure.is_met(own[OURS], ratio(peer)) else "no"]
    for other in own:
        if other not in (OURS, peer):
            limit = measure.limits.get(other, 1 if other in not_slower else None)
            worse = limit is not None and not measure.meets(ratio(other), limit)
            cells.append(_ratio(ratio(other)) + (" ✗" if worse else ""))
    return cells


def _of_medians(figures: Medians, measure: str, other: str) -> float:
    return figures[OURS][measure] / figures[other][measure]


def _of_turns(turns: Turns, measure: str, other: str) -> float:
    times = zip(turns[OURS], turns[other], strict=True)
    return statistics.median(ours[measure] / theirs[measure] for ours, theirs in times)


def shown(title: str, heads: Sequence[str], table: Sequence[Sequence[str]]) -> Table:
    """Return a table for the terminal."""
    result = Table(title=title, box=None, title_justify="left")
    for number, head in enumerate(heads):
        result.add_column(head, justify="right" if number else "left", no_wrap=True)
    for cells in table:
        result.add_row(*cells)
    return result


def markdown(heads: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *table]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _ratio(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.2 else f"{value:.2f} (1/{1 / value:.1f})"
