"""Schemas whose keywords have values of the wrong type: nothing fails on them, and what can be read is."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_codegen.model.ir import Ref
from mcp_codegen.servers.compare import compare_schemas
from mcp_codegen.servers.schema_types import SchemaTypeReader

TEXT = {"type": "string"}
# A value of `required`, and the names that can be read in it.
REQUIRED: list[tuple[Any, set[str]]] = [
    (["a"], {"a"}),
    (["a", 5, None, "b"], {"a", "b"}),
    ([["a"], {"b": 1}], set()),
    ("a", set()),
    ("ab", set()),
    (True, set()),
    (1, set()),
    (None, set()),
    ({"a": True}, set()),
]


@pytest.mark.parametrize(("required", "names"), REQUIRED)
def test_a_malformed_list_of_required_properties_requires_what_can_be_read(required: Any, names: set[str]) -> None:
    schema: Any = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": required}
    reader = SchemaTypeReader(())
    read = reader.read(schema, "thing")
    assert isinstance(read, Ref)
    assert {field.wire for field in reader.types[read.name].fields if field.required} == names
    for merged in ({"allOf": [schema]}, {"anyOf": [schema, schema], "type": "object", "properties": {}}):
        arguments = SchemaTypeReader(()).arguments(merged, "thing")
        assert arguments is not None
        assert {field.wire for field in arguments.shape.fields if field.required} == names


@pytest.mark.parametrize(("required", "names"), REQUIRED)
def test_a_malformed_list_of_required_properties_can_be_compared(required: Any, names: set[str]) -> None:
    schema = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
    changes = list(compare_schemas("input", schema, schema | {"required": required}, "tool"))
    breaking = {change.message for change in changes if change.severity == "breaking"}
    assert len(breaking) >= len(names) and all(any(name in text for text in breaking) for name in names)
    if not names and not isinstance(required, list):
        assert not breaking
