"""The predicted cost of every keyword against the measured one, in three sizes, where nothing ends early."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support.schemas.steps import STEP, slowness

from mcp_products.json_schema.cost import KEYWORDS, Cost, measure
from mcp_products.json_schema.validator import CompiledSchema

SIZES = (10, 300, 4000)
ATTEMPTS = 20
CALL = 500  # Steps of any call, on a busy machine.
INTEGER = {"type": "integer"}

SchemaAndValue = tuple[dict[str, Any], Any]


def integers(size: int) -> list[int]:
    return list(range(size))


def members(size: int) -> dict[str, int]:
    return {f"p{number}": number for number in range(size)}


def items(schema: dict[str, Any], item: Any) -> Callable[[int], SchemaAndValue]:
    """Apply a schema to all items of a list."""
    return lambda size: ({"items": schema}, [item] * size)


# For every keyword, a schema and a value that it accepts.
OF_KEYWORD: dict[str, Callable[[int], SchemaAndValue]] = {
    "type": items(INTEGER, 7),
    "enum": items({"enum": [*range(10)]}, 9),
    "const": items({"const": 7}, 7),
    "multipleOf": items({"multipleOf": 7}, 210),
    "maximum": items({"maximum": 7}, 7),
    "exclusiveMaximum": items({"exclusiveMaximum": 7}, 6),
    "minimum": items({"minimum": 7}, 7),
    "exclusiveMinimum": items({"exclusiveMinimum": 7}, 8),
    "maxLength": items({"maxLength": 100}, "x" * 50),
    "minLength": items({"minLength": 9}, "x" * 50),
    "pattern": items({"pattern": "^x+y$"}, "x" * 50 + "y"),
    "maxItems": items({"maxItems": 3}, [1, 2]),
    "minItems": items({"minItems": 1}, [1, 2]),
    "uniqueItems": lambda size: ({"uniqueItems": True}, integers(size)),
    "contains": lambda size: ({"contains": {"const": -1}, "minContains": 0, "maxContains": 1}, integers(size)),
    "minContains": lambda size: ({"contains": {"const": 1}, "minContains": size}, [1] * size),
    "maxContains": lambda size: ({"contains": {"const": 1}, "maxContains": size}, [1] * size),
    "maxProperties": items({"maxProperties": 3}, {"a": 1}),
    "minProperties": items({"minProperties": 1}, {"a": 1}),
    "required": items({"required": ["a", "b", "c"]}, {"a": 1, "b": 2, "c": 3}),
    "dependentRequired": items({"dependentRequired": {"a": ["b", "c"]}}, {"a": 1, "b": 2, "c": 3}),
    "prefixItems": items({"prefixItems": [INTEGER] * 3}, [1, 2, 3]),
    "items": items({"items": INTEGER}, [1, 2, 3]),
    "additionalItems": lambda size: (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [INTEGER], "additionalItems": INTEGER},
        integers(size),
    ),
    "properties": items({"properties": {"a": INTEGER, "b": INTEGER}}, {"a": 1, "b": 2}),
    "additionalProperties": lambda size: ({"additionalProperties": INTEGER}, members(size)),
    "patternProperties": lambda size: ({"patternProperties": {"^p[0-9]+$": INTEGER}}, members(size)),
    "propertyNames": lambda size: ({"propertyNames": {"maxLength": 9}}, members(size)),
    "dependentSchemas": items({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1, "b": 2}),
    "dependencies": lambda size: (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": {"dependencies": {"a": {"required": ["b"]}}},
        },
        [{"a": 1, "b": 2}] * size,
    ),
    "if": items({"if": INTEGER}, 7),
    "then": items({"if": INTEGER, "then": {"minimum": 0}}, 7),
    "else": items({"if": {"type": "string"}, "else": {"minimum": 0}}, 7),
    "allOf": items({"allOf": [INTEGER, {"minimum": 0}]}, 7),
    "anyOf": items({"anyOf": [{"type": "string"}, {"type": "null"}, INTEGER]}, 7),
    "oneOf": items({"oneOf": [{"type": "string"}, INTEGER, {"type": "null"}]}, 7),
    "not": items({"not": {"type": "string"}}, 7),
    "unevaluatedItems": lambda size: ({"prefixItems": [INTEGER], "unevaluatedItems": INTEGER}, integers(size)),
    "unevaluatedProperties": lambda size: (
        {"properties": {"p0": INTEGER}, "unevaluatedProperties": INTEGER},
        members(size),
    ),
    "$ref": lambda size: ({"$defs": {"x": INTEGER}, "items": {"$ref": "#/$defs/x"}}, integers(size)),
    "$defs": lambda size: ({"$defs": {"x": INTEGER}, "items": {"$ref": "#/$defs/x"}}, integers(size)),
    "definitions": lambda size: (
        {"definitions": {"x": INTEGER}, "items": {"$ref": "#/definitions/x"}},
        integers(size),
    ),
    "$dynamicRef": lambda size: (
        {"$defs": {"x": {"$dynamicAnchor": "x", **INTEGER}}, "items": {"$dynamicRef": "#x"}},
        integers(size),
    ),
}
# The keywords of 2020-12 that can fail, and those of draft-07 that it does not have any more.
VALIDATING = """
type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems
minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired prefixItems items
contains additionalProperties properties patternProperties dependentSchemas propertyNames if then else allOf anyOf oneOf
not unevaluatedItems unevaluatedProperties $ref $dynamicRef additionalItems dependencies
"""


def test_all_keywords_that_take_time_are_measured() -> None:
    assert OF_KEYWORD.keys() >= {*VALIDATING.split(), *KEYWORDS}
    for keyword, make in OF_KEYWORD.items():
        schema, _ = make(SIZES[0])
        assert f"'{keyword}'" in repr(schema)


@pytest.mark.long
@pytest.mark.parametrize("keyword", OF_KEYWORD)
def test_no_keyword_takes_three_times_as_long_as_predicted(keyword: str) -> None:
    beyond: dict[int, float] = {}
    for size in SIZES:
        schema, value = OF_KEYWORD[keyword](size)
        compiled = CompiledSchema(schema)
        assert compiled.first_error(value) is None
        for _ in range(ATTEMPTS):  # A busy machine makes any measurement longer.
            times: list[float] = []
            for _ in range(7):
                began = time.thread_time()
                compiled._validator.is_valid(value)
                times.append(time.thread_time() - began)
            steps = min(times) / (STEP * slowness()) - CALL
            if steps <= 3 * Cost(schema).upper_bound(measure(value)):
                break
        else:
            beyond[size] = steps
    assert beyond == {}
