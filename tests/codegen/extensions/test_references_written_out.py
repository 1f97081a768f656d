"""A schema.json in which each reference is written out: copies become names again, stated by hand for each form."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_codegen.errors import SchemaError
from mcp_codegen.extensions.schemas import dereferenced_schema

TEXT: dict[str, Any] = {"type": "string"}


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": [*required]} if required else {})


def constant(value: str) -> dict[str, Any]:
    return {"type": "string", "const": value}


def named(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


TEXT_BLOCK = closed("type", "text", type=constant("text"), text=TEXT)
OTHER_BLOCK = closed("type", "text", type=constant("x"), text=TEXT)
IMAGE_BLOCK = closed("type", "data", type=constant("image"), data=TEXT)
CORE = {
    "TextContent": TEXT_BLOCK,
    "ImageContent": IMAGE_BLOCK,
    "Icon": closed("src", src=TEXT),
    "Block": {"anyOf": [named("TextContent"), named("ImageContent")]},
    "Twin": closed("a", a=TEXT),
    "OtherTwin": closed("a", a=TEXT),
    "Id": {"anyOf": [TEXT, {"type": "integer"}]},
}
POINT = closed("x", x={"type": "number"}, y={"type": "number"})
MODE = {"anyOf": [constant("dark"), constant("light")]}
OWN = {"Point": POINT, "Mode": MODE, "Box": POINT | {"$schema": "x", "properties": {"corner": POINT}}}

# A schema inside a definition, what becomes of it, and the names of the core definitions that it uses.
FORMS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("a copy of a definition", POINT, named("Point"), []),
    ("a copy with a description", POINT | {"description": "A point."}, named("Point"), []),
    ("a copy of a union", MODE, named("Mode"), []),
    ("the form of a core definition", TEXT_BLOCK, named("TextContent"), ["TextContent"]),
    ("the form of two core definitions", closed("a", a=TEXT), closed("a", a=TEXT), []),
    ("another constant", OTHER_BLOCK, OTHER_BLOCK, []),
    ("all arms of a core union", {"anyOf": [IMAGE_BLOCK, TEXT_BLOCK]}, named("Block"), ["*", "Block"]),
    ("some arms of a core union", {"anyOf": [TEXT_BLOCK, TEXT]}, {"anyOf": [named("TextContent"), TEXT]}, ["*"]),
    ("a union without names", {"anyOf": [TEXT, {"type": "boolean"}]}, {"anyOf": [TEXT, {"type": "boolean"}]}, []),
    ("undefined beside one type", {"anyOf": [TEXT, {}]}, TEXT, []),
    ("constants", {"anyOf": [constant("a"), constant("b")]}, {"type": "string", "enum": ["a", "b"]}, []),
    ("safe integers", {"type": "integer", "minimum": -(2**53 - 1), "maximum": 2**53 - 1}, {"type": "integer"}, []),
    ("a bound", {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}, {"type": "integer", "minimum": 0}, []),
    ("prose", TEXT | {"description": "A text.", "default": "x", "format": "uri"}, TEXT, []),
    ("a list of copies", {"type": "array", "items": POINT}, {"type": "array", "items": named("Point")}, []),
    ("an absent property", closed("b", a={"not": {}}, b=TEXT), closed("b", b=TEXT), []),
    (
        "parts of one object",
        {"allOf": [closed("a", a=TEXT), closed("b", b=POINT)]},
        {"type": "object", "properties": {"a": TEXT, "b": named("Point")}, "required": ["a", "b"]},
        [],
    ),
    (
        "a part that is a union",
        {"allOf": [closed("a", a=TEXT), {"anyOf": [closed("b", b=TEXT), closed("c", c=TEXT)]}]},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT, "c": TEXT}, "required": ["a"]},
        [],
    ),
    (
        "an open object",
        {"type": "object", "properties": {"z": TEXT}, "additionalProperties": {}},
        {"type": "object", "properties": {"z": TEXT}, "x-open": True},
        [],
    ),
    (
        "a map",
        {"type": "object", "additionalProperties": POINT},
        {"type": "object", "additionalProperties": named("Point")},
        [],
    ),
    (
        "a map of some keys",
        {"type": "object", "propertyNames": {"anyOf": [constant("k"), constant("l")]}, "additionalProperties": POINT},
        {"type": "object", "properties": {"k": named("Point"), "l": named("Point")}},
        [],
    ),
]


@pytest.mark.parametrize(("kind", "written", "expected", "used"), FORMS, ids=[form[0] for form in FORMS])
def test_a_form_becomes_what_a_schema_with_names_has(kind: str, written: Any, expected: Any, used: list[str]) -> None:
    own = {**OWN, "Thing": closed("it", it=written)}
    schema = dereferenced_schema({"$defs": own}, "ext", {"$defs": CORE})
    thing = schema["$defs"]["Thing"]
    assert thing["properties"]["it"] == expected
    assert thing["required"] == ["it"] and schema["$defs"]["Point"] == POINT
    arms = {"TextContent", "ImageContent"} & set(schema["x-imports"]) if "*" in used else set[str]()
    assert set(schema["x-imports"]) - arms == set(used) - {"*"}


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ({}, r"ext: schema.json has no definitions under \$defs"),
        ({"$defs": {}}, r"ext: schema.json has no definitions under \$defs"),
        ({"$defs": {"A": 3}}, "ext: A must be a schema, not int"),
        ({"$defs": {"A": closed(b=[])}}, "ext: A.b must be a schema, not list"),
        ({"$defs": {"A": closed(b=named("A"))}}, "ext: A.b refers to '#/\\$defs/A'; pass a schema.json in which"),
        (
            {"$defs": {"ARequest": closed(params={"additionalProperties": True})}},
            "refers to RequestParams, which neither",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(published: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        dereferenced_schema(published, "ext", {"$defs": CORE})
