"""How many parts of messages were left out because they could not be read."""

from __future__ import annotations

from functools import cache

from opentelemetry.metrics import Counter, get_meter

from ..spans import NAME


@cache
def _counter() -> Counter:
    description = "Parts of received messages that were left out because they could not be read."
    return get_meter(NAME).create_counter(f"{NAME}.left_out", unit="{part}", description=description)


def count(revision: str, method: str, number: int) -> None:
    """Count the parts of one message."""
    _counter().add(number, {"mcp.method.name": method, "mcp.protocol.version": revision})
