"""What OpenTelemetry has measured in this process, by the names that its own exporter gives.

https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, InMemoryMetricReader, Sum
from opentelemetry.sdk.metrics.export import Histogram as MeasuredHistogram

from mcp_runtime.errors import LocalError

from .families import Exemplar, Family, Histogram, Labels

_log: Final = logging.getLogger("mcp_runtime.metrics")

_UNITS: Final = {"s": "seconds", "ms": "milliseconds", "By": "bytes", "1": "ratio", "%": "percent"}


class Measured:
    """What is measured from now on, in this process."""

    def __init__(self) -> None:
        """Read from the provider of metrics that the application has set; without one, set one.

        Raises LocalError for a provider that takes no further reader.
        """
        self._left_out: set[str] = set()
        self._reader = InMemoryMetricReader()
        provider: Any = metrics.get_meter_provider()
        if hasattr(provider, "add_metric_reader"):
            provider.add_metric_reader(self._reader)
        elif isinstance(provider, MeterProvider):
            raise LocalError(
                "metrics_path= needs opentelemetry-sdk>=1.40, or no metrics.set_meter_provider(…): it sets one itself"
            )
        else:
            metrics.set_meter_provider(MeterProvider([self._reader]))

    def families(self) -> Iterator[Family]:
        """Return what was measured so far."""
        data = self._reader.get_metrics_data()
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if isinstance(metric.data, (Sum, Gauge, MeasuredHistogram)):
                        yield _family(metric)
                    elif metric.name not in self._left_out:
                        self._left_out.add(metric.name)
                        kind = type(metric.data).__name__
                        _log.warning("the metric %s is left out: a route for Prometheus has no %s", metric.name, kind)


def _family(metric: Any) -> Family:
    data, text = metric.data, metric.description or ""
    is_counter = isinstance(data, Sum) and data.is_monotonic
    name = _name(metric.name, metric.unit or "", is_counter)
    if isinstance(data, MeasuredHistogram):
        points: dict[Labels, Any] = {_labels(point.attributes): _histogram(point) for point in data.data_points}
        return Family(name, "histogram", text, "sum", points)
    values = {_labels(point.attributes): float(point.value) for point in data.data_points}
    if isinstance(data, Gauge):
        return Family(name, "gauge", text, "each", {**values})
    return Family(name, "counter" if is_counter else "gauge", text, "sum", {**values})


def _name(name: str, unit: str, is_counter: bool) -> str:
    name = re.sub(r"[^a-zA-Z0-9_:]", "_", name)
    name = f"_{name}" if name[:1].isdigit() else name
    name = name.removesuffix("_total") if is_counter else name
    suffix = "" if unit.startswith("{") else _UNITS.get(unit, re.sub(r"[^a-zA-Z0-9_]", "_", unit))
    return f"{name}_{suffix}" if suffix and not name.endswith(f"_{suffix}") else name


def _labels(attributes: Mapping[str, Any] | None) -> Labels:
    return tuple(
        (re.sub(r"[^a-zA-Z0-9_]", "_", key), value if isinstance(value, str) else json.dumps(value, default=str))
        for key, value in sorted((attributes or {}).items())
    )


def _histogram(point: Any) -> Histogram:
    value = Histogram([*point.explicit_bounds], [*point.bucket_counts], float(point.sum))
    for found in sorted(point.exemplars, key=lambda one: one.time_unix_nano):
        if found.trace_id and found.span_id:
            bucket = sum(found.value > bound for bound in value.bounds)
            ids = f"{found.trace_id:032x}", f"{found.span_id:016x}"
            value.exemplars[bucket] = Exemplar(*ids, float(found.value), found.time_unix_nano / 1e9)
    return value
