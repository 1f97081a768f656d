"""What a predicted step of a validation takes for each keyword: weights of one unit have about 1 in the last column."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from mcp_products.json_schema.cost import Cost, measure
from mcp_products.json_schema.validator import CompiledSchema

ROUNDS = 7
# Nothing ends early here, so that the prediction has to be near in both directions.
STRAIGHT: dict[str, tuple[Any, Any]] = {
    "minimum": ({"minimum": 0}, [210] * 9000),
    "minimum of many digits": ({"minimum": 0}, [10**300] * 900),
    "a fraction": ({"multipleOf": 0.1}, [0.7] * 9000),
    "a fraction of an integer": ({"multipleOf": 0.5}, [210] * 9000),
    "a fraction of many digits": ({"multipleOf": 0.5}, [10**300] * 300),
    "a divisor": ({"multipleOf": 7}, [7 * 10**300] * 900),
    "unique integers": ({}, list(range(9000))),
    "unique objects": ({}, [{"a": i, "b": "x"} for i in range(3000)]),
    "properties": (
        {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
        [{"a": 1, "b": "x"}] * 9000,
    ),
    "required": ({"required": ["a", "b"]}, [{"a": 1, "b": "x"}] * 9000),
}


def seconds(schema: dict[str, Any], value: Any) -> float:
    """Return the CPU time of the fastest of a few calls."""
    compiled = CompiledSchema(schema)
    if (error := compiled.first_error(value)) is not None:
        raise SystemExit(f"{schema} refuses its value: {error}")
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        compiled.first_error(value)
        times.append(time.thread_time() - began)
    return min(times)


def main() -> None:
    """Print a row for each keyword."""
    steps: dict[str, float] = {}
    for name, (items, value) in STRAIGHT.items():
        schema = {"items": items, "uniqueItems": name.startswith("unique")}
        steps[name] = seconds(schema, value) / Cost(schema).upper_bound(measure(value))
    middle = median(steps.values())
    print(f"{'keyword':30} {'ns/step':>8} {'of the median':>14}")
    for name, step in steps.items():
        print(f"{name:30} {step * 1e9:8.2f} {step / middle:14.2f}")


if __name__ == "__main__":
    main()
