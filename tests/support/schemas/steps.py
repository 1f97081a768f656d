"""The unit in which the cost of a validation is predicted, in seconds on the machine that runs the tests."""

from __future__ import annotations

import time

from mcp_products.json_schema.cost import Cost, measure
from mcp_products.json_schema.validator import CompiledSchema

STEP = 1e-8  # Seconds, on the machine that the weights come from (benchmarks/schema_costs.py).
_SCHEMA = {"items": {"minimum": 0}}
_VALUE = [210] * 900


def slowness() -> float:
    """Return how many times slower this machine is now: 1 for as fast a machine and for a faster one.

    Other processes make a call several times longer, so that the bound of a measured call is multiplied by this."""
    compiled = CompiledSchema(_SCHEMA)
    seconds: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        compiled._validator.is_valid(_VALUE)
        seconds.append(time.thread_time() - began)
    return max(1.0, min(seconds) / (STEP * Cost(_SCHEMA).upper_bound(measure(_VALUE))))
