"""The predicted cost of a validation against the measured one: no pair of schema and value is slower than predicted."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

import pytest
from support.schemas.steps import STEP, slowness

from mcp_products.json_schema.cost import Cost, measure
from mcp_products.json_schema.validator import MAX_WORK, CompiledSchema
from mcp_runtime.errors import MCPError

SIZES = (10, 300, 4000)
ATTEMPTS = 20
NUMBERS = [7, 0.1, 1e-200, 1e200, 2**70 + 1, 10**300, -3, 2**53]
# The keywords with subschemas: with one, with up to so many, or with one for these names.
APPLICATORS: dict[str, int | tuple[str, ...]] = {
    **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"), ()),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), ()),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), 5),
    "patternProperties": ("^p[0-9]+$", "k"),
    "properties": ("a", "p1"),
    "dependentSchemas": ("p1",),
}
ROW = {f"k{i}": i for i in range(30)}


def _values(draw: random.Random, size: int) -> Any:
    number = draw.choice([1, 2.5, 1e300, 1e-300, 2**63, 10**300, 10**2000])
    return draw.choice(
        [
            [number] * size,
            [number * (i + 1) for i in range(size)],
            ["x" * draw.choice([1, 50]) + str(i) for i in range(size)],
            [ROW] * (size // 10),
            [[[i % 3] * 3] for i in range(size // 3)],
            {f"p{i}": i for i in range(size)},
            [{"a": [i], "b": {"c": i}} for i in range(size // 4)],
        ]
    )


def _keywords(draw: random.Random, depth: int = 0) -> dict[str, Any]:
    number, size = draw.choice(NUMBERS), draw.choice(SIZES)

    def inner() -> dict[str, Any]:
        return _keywords(draw, depth + 1) if depth < 3 else {"type": ["number", "string", "object"]}

    plain = {
        "minimum": number,
        "maximum": number,
        "exclusiveMinimum": number,
        "exclusiveMaximum": number,
        "multipleOf": abs(number),
        "const": number,
        "enum": draw.choice([[number, "a"], list(range(1 + size // 10)), [[number]] * 20]),
        "uniqueItems": True,
        "maxLength": size,
        "minLength": size // 10,
        "minItems": size // 10,
        "minContains": size // 10,
        "maxContains": size,
        "minProperties": size // 10,
        "maxProperties": size,
        "dependentRequired": {f"p{i}": [f"p{i + 1}"] for i in range(size // 10)},
        "$ref": "#/$defs/x",
        "pattern": draw.choice(["^[a-z]+$", "x{1,30}y", "(a|b)*c"]),
        "required": [f"p{i}" for i in range(size // 10)],
        "maxItems": size * 2,
        "type": draw.choice(["object", ["array", "object", "number"]]),
    }
    schema: dict[str, Any] = {}
    for name in draw.sample([*plain, *APPLICATORS], draw.choice([1, 1, 2, 4])):
        match APPLICATORS.get(name):
            case None:
                schema[name] = plain[name]
            case int(count):
                schema[name] = [inner() for _ in range(draw.randint(2, count))]
            case ():
                schema[name] = inner()
            case names:
                schema[name] = {key: inner() for key in names}
    return schema


def _seconds(call: Any) -> float:
    """Return the CPU time of the fastest of three calls: a busy machine makes any single one longer."""
    times: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.edges("0")
@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_no_random_schema_and_value_take_longer_than_predicted(seed: int) -> None:
    draw = random.Random(seed)
    validated, slow = 0, dict[str, Any]()
    for _ in range(250):
        schema, value = _keywords(draw), _values(draw, draw.choice(SIZES))
        schema["$defs"] = {"x": {"items": {"type": ["string", "number", "array"]}, "maxLength": 99}}
        began = time.thread_time()
        compiled: CompiledSchema | None = None
        with suppress(MCPError):
            compiled = CompiledSchema(schema)
            compiled.first_error(value)
        if (whole := time.thread_time() - began) > 5 * slowness():  # To compile, to validate and to explain take 0.1 s.
            slow[repr(schema)[:300]] = whole
        if compiled is None or Cost(schema).upper_bound(measure(value)) > MAX_WORK:
            continue
        validated += 1
        predicted = Cost(schema).upper_bound(measure(value))
        # 20,000 steps are the price of any call. A busy machine makes any measurement longer: it is done again.
        for _ in range(ATTEMPTS):
            seconds = _seconds(lambda compiled=compiled, value=value: compiled._validator.is_valid(value))
            steps = seconds / (STEP * slowness())
            if steps <= 3 * predicted + 20_000:
                break
        else:
            slow[repr(schema)[:300]] = (steps, predicted, repr(value)[:50])
    assert slow == {} and validated > 100


@pytest.mark.parametrize(
    "schema", [{"const": 10**5000}, {"items": {"multipleOf": 10**5000}}, {"enum": [[-(10**5000)]]}]
)
def test_numbers_that_no_json_text_can_have_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(MCPError):
        CompiledSchema(schema).first_error([10**5000])
