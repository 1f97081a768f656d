"""Schemas of a document that a validator rejects: as much of them remains as can be used."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_products.openapi.schemas import usable

CITY: dict[str, Any] = {"type": "string", "description": "A city.", "maxLength": 5}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "properties": {"city": CITY | {"pattern": "^[a-z]+$", "format": "x"}}},
            {"type": "object", "properties": {"city": CITY | {"pattern": "^[a-z]+$", "format": "x"}}},
        ),
        (
            {"type": "object", "properties": {"city": CITY | {"pattern": "(", "format": "x"}}},
            {"type": "object", "properties": {"city": CITY}},
        ),
        (
            {"type": "object", "properties": {"pattern": CITY}, "patternProperties": {"(": {}}},
            {"type": "object", "properties": {"pattern": CITY}},
        ),
        (
            {"type": "object", "properties": {"city": CITY, "size": {"minimum": "x"}}, "required": ["city"], "not": 5},
            {"type": "object", "properties": {"city": {"description": "A city."}, "size": {}}, "required": ["city"]},
        ),
    ],
    ids=["usable", "a wrong pattern", "a wrong pattern of names", "wrong constraints"],
)
def test_what_is_wrong_is_left_out(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert usable(schema) == expected
