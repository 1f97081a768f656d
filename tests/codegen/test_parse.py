"""The public reader `parse`: the names of the schema alone, what null means, and unions."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError
from support.project import ROOT, package
from support.schemas.mutated_instances import MutatingGenerator

from mcp_generated.v2026_07_28 import types as t
from mcp_products.models.described_fields import is_instance, parse

TEXT = {"type": "text", "text": "é"}


def test_a_text_bytes_and_an_object_are_read_alike() -> None:
    read = t.TextContent.parse(TEXT)
    assert read == t.TextContent.parse(json.dumps(TEXT)) == t.TextContent.parse(json.dumps(TEXT).encode())
    for wrong in ("{", '{"type": "text", "text": NaN}', "[]", b"\xff"):
        with pytest.raises(ValueError):
            t.TextContent.parse(wrong)


@pytest.mark.parametrize("read", [t.Tool.parse, t.Tool.model_validate])
def test_attributes_are_no_names_of_properties(read: Any) -> None:
    with pytest.raises(ValidationError, match="inputSchema"):
        read({"name": "x", "input_schema": {"type": "object"}})
    tool = read({"name": "x", "inputSchema": {"type": "object"}, "output_schema": 5})
    assert (tool.output_schema, tool.model_extra) == (None, {"output_schema": 5})
    assert tool.to_dict()["output_schema"] == 5
    assert t.Tool(name="x", input_schema={"type": "object"}).input_schema.type == "object"  # type: ignore[arg-type]


def test_a_text_is_a_number_only_where_that_is_asked_for() -> None:
    number = {"progressToken": "t", "progress": "5"}
    with pytest.raises(ValidationError):
        t.ProgressNotificationParams.parse(number)
    assert t.ProgressNotificationParams.parse(number, strict=False).progress == 5


def test_null_is_as_absent_or_refused_with_its_place() -> None:
    page: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": []}
    tool: dict[str, Any] = {"name": "x", "inputSchema": {"type": "object"}, "annotations": {"title": None}}
    given = {**page, "tools": [tool]}
    assert t.ListToolsResult.parse(given).to_dict()["tools"][0]["annotations"] == {}
    with pytest.raises(ValidationError, match=r"tools\.0\.annotations\.title\n.*leave the property out"):
        t.ListToolsResult.parse(given, null="refused")
    tool["annotations"] = {"note": None}  # A property that the schema does not have is any JSON.
    assert t.ListToolsResult.parse(given, null="refused").to_dict() == given


def test_content_of_an_unknown_type_is_kept_where_that_is_asked_for() -> None:
    given = {"resultType": "complete", "content": [{"type": "video", "url": "x"}]}
    with pytest.raises(ValidationError):
        t.CallToolResult.parse(given)
    read = t.CallToolResult.parse(given, unknown=True)
    assert type(read.content[0]).__name__ == "UnknownContent"
    assert read.model_dump(mode="json", warnings=False) == given


def test_a_union_is_read_and_told_by_its_name() -> None:
    read = parse(t.ContentBlock, TEXT)
    assert is_instance(read, t.ContentBlock)
    assert not is_instance(TEXT, t.ContentBlock)
    assert [is_instance(level, t.LoggingLevel) for level in ("info", "loud")] == [True, False]
    assert [is_instance(value, t.ProgressToken) for value in ("a", 5, None)] == [True, True, False]


@cache
def schema(revision: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "schema" / revision / "schema.json").read_text(encoding="utf-8"))
    return loaded["$defs"]


def disagreement(revision: str, name: str, instance: Any) -> str:
    """How `parse` and jsonschema differ on an instance; empty if they agree, and it is written as it was read.

    A null that was lost may be refused where a later arm of a union would keep it: docs/fidelity.md has this policy.
    """
    shape = getattr(package(revision, "types"), {"Annotated": "AnnotatedBase"}.get(name, name))
    judge: Any = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema(revision)})
    expected = judge.is_valid(instance)
    try:
        back = TypeAdapter(shape).dump_python(parse(shape, instance, null="refused"), mode="json")
    except ValidationError as error:
        return f"refuses {name}: {json.dumps(instance)}" if expected and "[type=null" not in str(error) else ""
    if not expected:
        return f"accepts {name}: {json.dumps(instance)}"
    return "" if back == instance else f"loses a part of {name}: {json.dumps(instance)}"


def disagreements(revision: str, names: list[str], rounds: int = 1) -> list[str]:
    instances = MutatingGenerator(schema(revision), seed=40)
    pairs = [(name, instances.valid(name)) for _ in range(rounds) for name in names]
    pairs += [(name, instances.mutated(valid)) for name, valid in pairs]
    return [text for name, instance in pairs if (text := disagreement(revision, name, instance))]


def test_parse_agrees_with_json_schema(revision: str) -> None:
    assert disagreements(revision, sorted(schema(revision))[::4]) == []


@pytest.mark.exhaustive
def test_parse_agrees_with_json_schema_on_four_thousand_instances_each_way(revision: str) -> None:
    names = sorted(schema(revision))
    assert disagreements(revision, names, 4_000 // len(names) + 1) == []
