"""`get_tracer` of FastMCP: the tracer of OpenTelemetry for spans inside of handlers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...errors import LocalError


def get_tracer(version: str | None = None) -> Any:
    """Return a tracer of OpenTelemetry. Raises LocalError if OpenTelemetry is not installed."""
    try:
        trace = import_module("opentelemetry.trace")
    except ImportError:
        raise LocalError("get_tracer() needs OpenTelemetry: pip install opentelemetry-api") from None
    return trace.get_tracer("mcp_generated", version)
