"""How each form of a type is written in Python, stated by hand, and what the class that is written then accepts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, record, skeleton

from mcp_codegen.paths import template_folders
from mcp_codegen.render.declarations import declarations

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}


def fields_of(tmp_path: Path, required: bool, properties: dict[str, Any], **types: Any) -> dict[str, str]:
    """Return the annotations of the fields of a type `Thing`, on one line, as they are written."""
    defined = record(properties, *(properties if required else ()))
    revision = folder(tmp_path, skeleton(Thing=defined, **types)).revision("1")
    body = declarations(revision, template_folders())["Thing"]
    return {
        name: " ".join(text.split())
        for name, text in re.findall(r"^    (\w+): (.+?)(?=^    \w+:|\Z)", body, re.MULTILINE | re.DOTALL)
    }


FORMS: list[tuple[dict[str, Any], str]] = [
    (TEXT, "str"),
    (NUMBER, "Int"),
    ({"type": "number"}, "Number"),
    ({"type": "boolean"}, "bool"),
    ({}, "Any"),
    ({"$ref": "#/$defs/Other"}, "Other"),
    ({"type": "array", "items": TEXT}, "list[str]"),
    ({"type": "array", "items": {"type": "array", "items": NUMBER}}, "list[list[Int]]"),
    ({"type": "object", "additionalProperties": NUMBER}, "dict[str, Int]"),
    ({"type": "object", "additionalProperties": {}}, "dict[str, Any]"),
    ({"enum": ["x", "y"]}, 'Literal["x", "y"]'),
    ({"anyOf": [TEXT, NUMBER]}, "str | Int"),
    ({"anyOf": [TEXT, {"type": "null"}]}, "str | None"),
    ({"anyOf": [TEXT, {"$ref": "#/$defs/Other"}]}, "str | Other"),
]


@pytest.mark.parametrize(("form", "annotation"), FORMS)
def test_a_form_is_written_as_its_python_type(tmp_path: Path, form: dict[str, Any], annotation: str) -> None:
    other = record({"b": TEXT}, "b")
    assert fields_of(tmp_path / "1", True, {"a": form}, Other=other) == {"a": annotation}
    optional = "OptAny = None" if annotation == "Any" else f"Opt[{annotation}] = None"  # null is any value.
    assert fields_of(tmp_path / "2", False, {"a": form}, Other=other) == {"a": optional}


@pytest.mark.parametrize(
    ("form", "bounds"),
    [
        (NUMBER | {"minimum": 1}, "ge=1"),
        (NUMBER | {"maximum": 9}, "le=9"),
        ({"type": "array", "items": TEXT, "maxItems": 3}, "max_length=3"),
    ],
)
def test_a_bound_is_written_beside_its_type(tmp_path: Path, form: dict[str, Any], bounds: str) -> None:
    [annotation] = fields_of(tmp_path, True, {"a": form}).values()
    assert annotation.startswith("Annotated[") and f"Field({bounds})" in annotation


def test_a_constant_is_filled_in_only_where_it_is_required(tmp_path: Path) -> None:
    constant = {"type": "string", "const": "x"}
    [required] = fields_of(tmp_path / "1", True, {"a": constant}).values()
    [optional] = fields_of(tmp_path / "2", False, {"a": constant}).values()
    assert required == 'Literal["x"] = const("x")'
    assert optional == 'Opt[Literal["x"]] = None'


def test_a_name_that_python_spells_otherwise_keeps_its_name_in_json(tmp_path: Path) -> None:
    fields = fields_of(tmp_path, True, {"inputSchema": TEXT, "class": TEXT, "plain": TEXT})
    assert fields == {
        "input_schema": 'Annotated[str, Field(alias="inputSchema")]',
        "class_": 'Annotated[str, Field(alias="class")]',
        "plain": "str",
    }


def test_a_class_has_the_fields_that_its_base_has_not(tmp_path: Path) -> None:
    inherits = record({"b": TEXT, "a": TEXT}, "b") | {"x-extends": ["Other"]}
    revision = folder(tmp_path, skeleton(Thing=inherits, Other=record({"b": TEXT}, "b"))).revision("1")
    body = declarations(revision, template_folders())["Thing"]
    assert body.startswith("class Thing(Other):") and re.findall(r"^    (\w+):", body, re.MULTILINE) == ["a"]
