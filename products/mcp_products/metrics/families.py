"""Families of metrics as plain values: how those of several processes are added, and how Prometheus reads them.

Text format: https://prometheus.io/docs/instrumenting/exposition_formats/
OpenMetrics, which has exemplars: https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from mcp_runtime.protocol.models import is_object

Labels: TypeAlias = tuple[tuple[str, str], ...]

OPENMETRICS: Final = "application/openmetrics-text"
_MERGES: Final[Mapping[str, Callable[[tuple[float, float]], float]]] = {"lowest": min, "highest": max}
_TYPES: Final = {
    True: f"{OPENMETRICS}; version=1.0.0; charset=utf-8",
    False: "text/plain; version=0.0.4; charset=utf-8",
}


@dataclass(slots=True)
class Exemplar:
    """One measurement of a bucket, and the span that it was made in."""

    trace_id: str
    span_id: str
    value: float
    time: float
    """Seconds since the epoch."""


@dataclass(slots=True)
class Histogram:
    """How many measurements are in each bucket. The last bucket is above all bounds."""

    bounds: list[float]
    counts: list[int]
    sum: float
    exemplars: dict[int, Exemplar] = field(default_factory=dict[int, Exemplar])
    """The newest measurement of a bucket that has a trace, by the bucket's index."""

    def add(self, other: Histogram) -> None:
        """Add the measurements of another process. Those with other bounds are counted as one bucket."""
        if self.bounds != other.bounds:
            self.bounds = []
            self.counts = [sum(self.counts)]
            self.exemplars = {}
            other = Histogram([], [sum(other.counts)], other.sum)
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum
        for bucket, exemplar in other.exemplars.items():
            present = self.exemplars.get(bucket)
            if present is None or present.time < exemplar.time:
                self.exemplars[bucket] = exemplar


@dataclass(slots=True)
class Family:
    """The points of one metric.

    Attributes:
        name: As Prometheus has it, without the `_total` of counters.
        kind: What the values are.
        text: What the metric is.
        merge: What becomes of the values of several processes: their sum, the lowest or highest one, or each with a
            label `worker`.
        points: The values by their labels.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    merge: Literal["sum", "lowest", "highest", "each"] = "sum"
    points: dict[Labels, float | Histogram] = field(default_factory=dict[Labels, float | Histogram])

    def as_json(self) -> dict[str, Any]:
        """Return the family for `from_json`."""
        rows = [[labels, value] for labels, value in self.points.items()]
        return {"name": self.name, "kind": self.kind, "text": self.text, "merge": self.merge, "rows": rows}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Family:
        """Return the family of a value that `as_json` has made, after it was JSON."""
        points = {tuple((key, text) for key, text in labels): _point(point) for labels, point in value["rows"]}
        return cls(value["name"], value["kind"], value["text"], value["merge"], points)


def _point(value: Any) -> float | Histogram:
    if not is_object(value):
        return float(value)
    exemplars = {int(bucket): Exemplar(**exemplar) for bucket, exemplar in value["exemplars"].items()}
    return Histogram(value["bounds"], value["counts"], value["sum"], exemplars)


def merged(processes: Iterable[tuple[str, Iterable[Family]]]) -> list[Family]:
    """Return the families of several processes as one; each process has a name, for gauges that are not added up."""
    all: dict[str, Family] = {}
    for name, families in processes:
        for family in families:
            into = all.setdefault(family.name, Family(family.name, family.kind, family.text, family.merge))
            for labels, value in family.points.items():
                _add(into, (("worker", name), *labels) if family.merge == "each" else labels, value)
    return list(all.values())


def _add(family: Family, labels: Labels, value: float | Histogram) -> None:
    present = family.points.get(labels)
    if isinstance(value, Histogram):
        if not isinstance(present, Histogram):
            family.points[labels] = present = Histogram(value.bounds, [0] * len(value.counts), 0.0)
        present.add(value)
    elif present is None or isinstance(present, Histogram):
        family.points[labels] = value
    else:
        family.points[labels] = _MERGES.get(family.merge, sum)((present, value))


def counters(families: Iterable[Family]) -> list[Family]:
    """Return the families that still count when their process has ended."""
    return [family for family in families if family.kind != "gauge"]


# ---- text ------------------------------------------------------------------------------------------------------------


def content_type(accept: str) -> tuple[bool, str]:
    """Return whether the client of an `Accept` header reads OpenMetrics, and the content type for it."""
    openmetrics = OPENMETRICS in accept
    return openmetrics, _TYPES[openmetrics]


def text_of(families: Iterable[Family], openmetrics: bool = False) -> str:
    """Return the families in the text format of Prometheus, or as OpenMetrics, which has exemplars."""
    lines: list[str] = []
    for family in families:
        is_counter = family.kind == "counter"
        name = f"{family.name}_total" if is_counter and not openmetrics else family.name
        text = family.text.replace("\\", "\\\\").replace("\n", "\\n")
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {family.kind}"]
        for labels, value in family.points.items():
            if isinstance(value, Histogram):
                lines += _buckets(family.name, labels, value, openmetrics)
            else:
                lines.append(f"{family.name}{'_total' if is_counter else ''}{_braces(labels)} {_number(value)}")
    return "\n".join([*lines, *(["# EOF"] if openmetrics else []), ""])


def _buckets(name: str, labels: Labels, value: Histogram, openmetrics: bool) -> Iterator[str]:
    total = 0
    for index, count in enumerate(value.counts):
        total += count
        bound = "+Inf" if index == len(value.bounds) else repr(float(value.bounds[index]))
        line = f"{name}_bucket{_braces((*labels, ('le', bound)))} {total}"
        exemplar = value.exemplars.get(index)
        if exemplar is not None and openmetrics:
            ids = _braces((("trace_id", exemplar.trace_id), ("span_id", exemplar.span_id)))
            line += f" # {ids} {_number(exemplar.value)} {exemplar.time:.3f}"
        yield line
    yield f"{name}_sum{_braces(labels)} {_number(value.sum)}"
    yield f"{name}_count{_braces(labels)} {total}"


def _braces(labels: Labels) -> str:
    return "{" + ",".join(f'{key}="{_escaped(text)}"' for key, text in labels) + "}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
