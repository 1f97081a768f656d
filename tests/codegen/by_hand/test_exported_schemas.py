"""What pydantic shows of the generated types: JSON Schema as the specification has it, and fields with descriptions."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError
from support.project import ROOT, package

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.model.ir import Alias, Field, Object, Plain, Ref, Type, Union
from mcp_codegen.testkit.messages import InstanceGenerator
from mcp_generated.v2025_11_25 import types as t
from mcp_generated.v2026_07_28 import types as newest
from mcp_products.models.described_fields import _sentences, described_fields

SCHEMAS = SchemaCatalog(ROOT / "schema")
IDS = ["2025-03-26", "2026-07-28"]
FORMATS = {"byte", "uri", "uri-template"}


def models(id: str) -> Iterator[tuple[type[BaseModel], Object]]:
    types = package(id, "types")
    for defined in SCHEMAS.revision(id).objects():
        yield getattr(types, defined.name), defined


def allows_null(written: Type, id: str) -> bool:
    match written:
        case Plain(kind):
            return kind in ("any", "null")
        case Ref(name):
            defined = SCHEMAS.revision(id).types[name]
            return isinstance(defined, Alias) and allows_null(defined.type, id)
        case Union(arms):
            return any(allows_null(arm, id) for arm in arms)
        case _:
            return False


def check(written: dict[str, Any], field: Field, schema: dict[str, Any], id: str) -> None:
    text = f"{field.doc} Deprecated.".strip() if field.deprecated else field.doc
    assert " ".join(written.get("description", text).split()) == " ".join(text.split())
    assert not text or "description" in written
    if isinstance(field.type, Plain) and field.type.format in FORMATS:
        assert written["format"] == field.type.format
    null = Draft202012Validator({**written, "$defs": schema.get("$defs", {})}).is_valid(None)
    assert null == allows_null(field.type, id), field


def test_a_class_of_a_module_that_is_not_loaded_has_fields_and_a_schema() -> None:
    cls = type("Own", (t.Tool,), {"__module__": "never_loaded"})
    assert "input_schema" in cls.model_fields
    assert "inputSchema" in cls.model_json_schema()["properties"]


def test_descriptions_are_read_again_if_another_thread_parsed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> ast.Module:
        parsed.append(text)
        if len(parsed) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=95, after=93)")
        return compile(text, "a module", "exec", ast.PyCF_ONLY_AST)

    monkeypatch.setattr(ast, "parse", parse)
    described_fields.cache_clear()
    _sentences.cache_clear()
    assert t.Implementation.model_fields["name"].description and len(parsed) >= 2


@pytest.mark.long
@pytest.mark.parametrize("id", IDS)
def test_an_exported_schema_has_descriptions_formats_and_openness_and_no_null(id: str) -> None:
    for model, defined in models(id):
        schema = model.model_json_schema()
        own = schema["$defs"][defined.name] if "$ref" in schema else schema
        assert own.get("additionalProperties", True) is not defined.closed
        assert set(own.get("required", [])) == {field.wire for field in defined.fields if field.required}
        fields = model.model_fields
        for field in defined.fields:
            check(own["properties"][field.wire], field, schema, id)
            assert (fields[field.name].description or "").split() == (
                own["properties"][field.wire].get("description", "")
            ).split()


@pytest.mark.long
@pytest.mark.parametrize("id", IDS)
def test_valid_instances_are_valid_by_the_exported_schema(id: str) -> None:
    definitions = SCHEMAS.normalized(id)[0]["$defs"]
    instances = InstanceGenerator(definitions, seed=20261123)
    for model, defined in models(id):
        if defined.name in definitions:
            validator = Draft202012Validator(model.model_json_schema())
            for _ in range(3):
                instance = instances.valid(defined.name)
                assert [error.message for error in validator.iter_errors(instance)] == []


def test_the_schema_and_the_fields_of_a_type() -> None:
    schema = t.ImageContent.model_json_schema()
    assert schema["properties"]["data"] == {
        "description": "The image, in base64.",
        "format": "byte",
        "title": "Data",
        "type": "string",
    }
    assert (
        schema["properties"]["annotations"]["$ref"] == "#/$defs/Annotations" and schema["additionalProperties"] is True
    )
    priority = schema["$defs"]["Annotations"]["properties"]["priority"]
    assert (priority["minimum"], priority["maximum"]) == (0, 1) and "default" not in priority
    assert t.ImageContent.model_fields["data"].description == "The image, in base64."
    assert (
        t.ImageContent(data="", mime_type="a/b").model_fields["mime_type"].description == "The MIME type of the data."
    )
    assert newest.ResourceLink.model_json_schema(by_alias=False)["properties"]["mime_type"]["description"]
    nested = newest.ListToolsResult.model_json_schema(mode="serialization")
    assert nested["$defs"]["Tool"]["properties"]["description"]["description"]


@pytest.mark.parametrize("data", [b"\xff\x00", bytearray(b"\xff\x00")])
def test_bytes_are_encoded_where_the_schema_has_base64_and_refused_elsewhere(data: Any) -> None:
    for types in (t, newest):
        assert types.ImageContent(data=data, mime_type="image/png").data == "/wA="
        assert types.AudioContent(data=data, mimeType="audio/wav").to_dict()["data"] == "/wA="
        assert types.BlobResourceContents(uri="a:b", blob=data).blob == "/wA="
        for wrong in (
            lambda types=types: types.TextContent(text=data),
            lambda types=types: types.ImageContent(data="", mime_type=data),
            lambda types=types: types.CallToolResult(content=[{"type": "image", "data": data, "mimeType": "a/b"}]),
            lambda types=types: types.ImageContent(data=memoryview(data), mime_type="a/b"),
        ):
            with pytest.raises(ValidationError, match="should be a valid string"):
                wrong()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    for wrong in (
        lambda: t.CreateMessageRequestParams(messages=[], max_tokens=1, temperature=number),
        lambda: t.ProgressNotificationParams(progress_token=1, progress=number),
        lambda: t.ModelPreferences(costPriority=number),
        lambda: newest.ElicitResult(action="accept", content={"a": number}),
    ):
        with pytest.raises(ValidationError):
            wrong()


def test_a_name_of_python_and_one_of_json_send_the_same() -> None:
    for preferences in ({"cost_priority": 0.5}, {"costPriority": 0.5}, t.ModelPreferences(cost_priority=0.5)):
        for name in ("model_preferences", "modelPreferences"):
            params = t.CreateMessageRequestParams(messages=[], max_tokens=1, **{name: preferences})  # type: ignore[arg-type]
            assert params.to_dict() == {"messages": [], "maxTokens": 1, "modelPreferences": {"costPriority": 0.5}}
