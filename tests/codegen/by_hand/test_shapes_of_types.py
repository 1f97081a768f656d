"""The shape of a type, by which the runtime tells whether a JSON value fits: stated by hand for types of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, message, no_capability, record, skeleton

from mcp_codegen.conversion.shapes import Shapes

TEXT: dict[str, Any] = {"type": "string"}
SHAPES: list[tuple[dict[str, Any], object]] = [
    ({}, None),
    (TEXT, "string"),
    ({"type": "integer"}, "integer"),
    ({"type": "boolean"}, "boolean"),
    ({"type": "integer", "minimum": 1, "maximum": 2}, ("range", "integer", 1, 2)),
    ({"type": "integer", "minimum": 0}, ("range", "integer", 0, None)),
    ({"type": "string", "const": "x"}, ("values", "x")),
    ({"enum": ["x", "y"]}, ("values", "x", "y")),
    ({"type": "array", "items": TEXT}, ("list", "string")),
    ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, ("list", ("list", "integer"))),
    ({"type": "object", "additionalProperties": TEXT}, ("map", "string")),
    ({"type": "object", "additionalProperties": {"type": "array", "items": TEXT}}, ("map", ("list", "string"))),
    ({"anyOf": [TEXT, {"type": "integer"}]}, ("one_of", "string", "integer")),
    ({"$ref": "#/$defs/Other"}, "1/Other"),
]


@pytest.mark.parametrize(("schema", "shape"), SHAPES, ids=[str(shape) for _, shape in SHAPES])
def test_a_type_of_each_kind_has_its_shape(tmp_path: Path, schema: dict[str, Any], shape: object) -> None:
    types = {
        "Thing": record({"a": schema}),
        "Other": record({"b": TEXT, "c": {"type": "integer"}, "d": {}}, "b", "d"),
        "FetchRequest": message("fetch", record({"thing": {"$ref": "#/$defs/Thing"}}, "thing")),
    }
    revision = folder(tmp_path / "1", skeleton(**types), no_capability("fetch"), revision="1").revision("1")
    records: dict[str, Any] = {}
    thing: Any = revision.types["Thing"]
    assert Shapes(revision, records).shape(thing.field("a").type) == shape
    other = {"1/Other": {"required": ["b", "d"], "properties": {"b": "string", "c": "integer"}}}
    assert records == (other if shape == "1/Other" else {})
