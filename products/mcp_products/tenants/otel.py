"""What tenants use, as metrics and log records of OpenTelemetry."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber, get_logger
from opentelemetry.metrics import Counter, get_meter

from .usage import Usage

_NAME: Final = "mcp_runtime.tenant"
_MAX_TENANTS: Final = 1000  # Names that are attributes of metrics; others are counted together. Log records have all.
_OTHERS: Final = "_other"

_tenants: set[str] = set()


@cache
def _counter(name: str, unit: str, description: str) -> Counter:
    return get_meter("mcp_runtime").create_counter(f"{_NAME}.{name}", unit=unit, description=description)


def report(used: Usage) -> None:
    """Count what a request has used, and emit its log record, whose event is named `mcp_runtime.tenant.usage`."""
    if len(_tenants) < _MAX_TENANTS:
        _tenants.add(used.tenant)
    shown = used.tenant if used.tenant in _tenants else _OTHERS
    attributes: dict[str, Any] = {"tenant": shown, "mcp.method.name": used.method, "outcome": used.outcome}
    if used.limit is not None:
        attributes["limit"] = used.limit
    _counter("requests", "{request}", "Requests of tenants.").add(1, attributes)
    _counter("cost", "{unit}", "Cost units that tenants have used.").add(used.cost, {"tenant": shown})
    _counter("received", "By", "Bytes of the params of requests of tenants.").add(
        used.bytes_received, {"tenant": shown}
    )
    _counter("sent", "By", "Bytes of the results of requests of tenants.").add(used.bytes_sent, {"tenant": shown})
    _emit(used, {**attributes, "tenant": used.tenant})


def _emit(used: Usage, attributes: dict[str, Any]) -> None:
    attributes |= {
        "cost": used.cost,
        "bytes.received": used.bytes_received,
        "bytes.sent": used.bytes_sent,
        "seconds": used.seconds,
    }
    if used.tool is not None:
        attributes["gen_ai.tool.name"] = used.tool
    record = LogRecord(
        timestamp=int(used.began * 1e9),
        severity_number=SeverityNumber.INFO,
        event_name=f"{_NAME}.usage",
        body=f"{used.tenant} has used {used.method}",
        attributes=attributes,
    )
    get_logger("mcp_runtime").emit(record)
