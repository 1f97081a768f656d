"""The small check of forms agrees with the JSON Schema validator, which is not in the base installation."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_products.json_schema.forms import first_form_error
from mcp_products.json_schema.validator import compile_schema

CHOICES = [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "agreed": {"type": "boolean"},
        "day": {"type": "string", "enum": ["mon", "tue"]},
        "colour": {"type": "string", "oneOf": CHOICES},
        "colours": {"type": "array", "items": {"anyOf": CHOICES}, "minItems": 1, "maxItems": 2},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}},
    },
    "required": ["name"],
}
VALID = {"name": "Ann", "age": 18, "share": 0.5, "agreed": True, "day": "mon", "colour": "r", "colours": ["r", "b"]}
VALUES: list[Any] = [None, True, 0, 1, 1.0, 1.5, 18, 99, 100, "", "r", "mon", "Anna", "Annabel", [], ["r"], ["mon"], {}]


@pytest.mark.parametrize("name", SCHEMA["properties"])
def test_a_form_is_valid_for_both_or_for_neither(name: str) -> None:
    outcomes = set()
    for value in [*VALUES, ["r", "b", "r"], ["r", "green"], VALID.get(name)]:
        content = {**VALID, name: value}
        error = first_form_error(SCHEMA, content)
        assert (error is None) is (compile_schema(SCHEMA).first_error(content) is None), (content, error)
        assert error is None or error.startswith(f"{name}: ")
        outcomes.add(error is None)
    assert outcomes == {True, False}


def test_a_property_that_is_required_is_missed_and_others_may_be_there() -> None:
    assert first_form_error(SCHEMA, {}) == "'name' is a required property"
    assert first_form_error(SCHEMA, {"name": "Ann", "other": 1}) is None
    assert compile_schema(SCHEMA).first_error({"name": "Ann", "other": 1}) is None
