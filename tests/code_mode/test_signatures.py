"""Tools as lines of Python: types of schemas, names that can be written, and texts that stay within their quotes."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from mcp_products.code_mode.savings import savings_of
from mcp_products.code_mode.signatures import functions_of, type_of


def tool(name: str = "a", properties: Any = None, required: Any = (), **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}, "required": [*required]}
    return {"name": name, "inputSchema": schema, **more}


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"enum": ["a", "b"]}, "'a' | 'b'"),
        ({"enum": list(range(20))}, "int"),
        ({"const": 1}, "1"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"properties": {"id": {"type": "string"}, "n": {}}, "required": ["id"]}, "{'id': str, 'n'?: Any}"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"$ref": "#/$defs/x"}, "bool"),
        ({"$ref": "#/$defs/tree"}, "list[list[Any]]"),
        ({"$ref": "https://elsewhere.example/x"}, "Any"),
        (True, "Any"),
    ],
)
def test_a_schema_is_a_type(schema: Any, written: str) -> None:
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    assert type_of(schema, {"$defs": {"x": {"type": "boolean"}, "tree": tree}}) == written


def test_a_function_has_its_arguments_required_ones_first_and_its_result() -> None:
    properties = {"limit": {"type": "integer", "default": 5}, "the-id": {"type": "string", "description": "An id."}}
    output = {"properties": {"result": {"type": "array", "items": {"type": "string"}}}, "required": ["result"]}
    [function] = functions_of(
        [tool("orders.list", properties, ["the-id"], description='Say "hi".', outputSchema=output)]
    ).values()
    assert function.text == (
        'def orders_list(the_id: str, limit: int = 5) -> list[str]:\n    """Say \'hi\'.\n    the_id: An id."""'
    )
    assert function.wire_arguments(("x",), {"limit": 1}) == {"the-id": "x", "limit": 1}


def test_names_are_identifiers_and_differ() -> None:
    names = ["class", "a.b", "a-b", "a b", "1st", "é", "", "x" * 200]
    written = "class_ a_b a_b_ a_b__ _1st tool tool_".split()
    assert list(functions_of(tool(name) for name in names)) == [*written, "x" * 80]


@pytest.mark.parametrize(
    "text", ['""" + evil() + """', "\\", 'ends with "', "a\nb\u2028c", "\ud800", "x" * 5000, "\\N{DIGIT ONE}"]
)
def test_no_text_of_a_server_leaves_its_quotes(text: str) -> None:
    properties = {text: {"type": "string", "description": text, "default": text}}
    [function] = functions_of([tool(text, properties, description=text)]).values()
    [written] = ast.parse(function.text).body
    assert isinstance(written, ast.FunctionDef) and len(written.body) == 1
    assert len(function.text) < 1500


def test_what_is_no_json_is_no_argument() -> None:
    [function] = functions_of([tool("f", {"x": {}})]).values()
    for value in (float("nan"), {1, 2}, object()):
        with pytest.raises(TypeError, match=r"f\(\): the arguments must be JSON"):
            function.wire_arguments((value,), {})


def test_each_measure_leaves_fewer_tokens() -> None:
    properties = {"id": {"type": "string", "description": "x" * 900}}
    listed = [tool(f"tool_{number}", properties, ["id"], description="y" * 700) for number in range(20)]
    tokens = savings_of(listed)
    assert tokens["now"] > tokens["shorter_descriptions"] > tokens["signatures"] > tokens["code_mode"] == 180
    assert savings_of([]) == {"now": 0, "shorter_descriptions": 0, "signatures": 0, "code_mode": 0}
