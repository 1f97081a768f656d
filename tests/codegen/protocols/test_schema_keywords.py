"""Each keyword of JSON Schema becomes a type or is checked beside one; others are refused by name and place."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.protocols.json_schema import read_json_schema
from mcp_runtime.protocol.models import validator

SIDES = {"client": "Client", "server": "Server"}
REF = "#/$defs/"
TEXT = {"$ref": REF + "Text"}
DEFINITIONS: dict[str, Any] = {
    "Text": {"type": "string"},
    "Item": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
    "a/b~c%d": {"type": "integer"},
}
# By name: a schema, what it accepts, and what it refuses.
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "ShortText": ({"allOf": [TEXT, {"maxLength": 3}]}, ["", "abc"], ["abcd", 1, {}]),
    "TextOrNumber": ({"type": ["integer", "string"], "minLength": 2}, [1, "ab"], ["a", 1.5, None, True]),
    "Many": ({"type": ["number", "array", "null"], "minimum": 2, "minItems": 1}, [2, None, [1]], [1, [], "a"]),
    "Above": ({"type": "integer", "exclusiveMinimum": 3}, [4], [3, 2]),
    "Below": ({"type": "number", "exclusiveMaximum": 3, "multipleOf": 0.5}, [2.5, -1], [3, 2.7]),
    "Escaped": ({"$ref": REF + "a~1b~0c%25d"}, [1], ["a"]),
    "Property": ({"$ref": REF + "Item/properties/name"}, ["a"], [1]),
    "Not": ({"not": {"type": "integer"}}, ["a", 1.5, None], [1]),
    "OneOf": ({"oneOf": [{"minimum": 2}, {"multipleOf": 2}]}, [3, 0], [4, 1]),
    "If": ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}}, ["ab", None], ["a", 1]),
    "Unique": ({"type": "array", "items": TEXT, "uniqueItems": True}, [["a", "b"]], [["a", "a"], [1]]),
    "Contains": ({"type": "array", "contains": {"const": 1}, "maxContains": 1}, [[1, 2]], [[2], [1, 1]]),
    "Tuple": ({"type": "array", "prefixItems": [TEXT], "items": False}, [["a"], []], [["a", "b"], [1]]),
    "Rest": ({"type": "array", "prefixItems": [TEXT], "items": {"type": "integer"}}, [["a", 1]], [["a", "b"], [1]]),
    "Closed": ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": False},
               [{}, {"a": "x"}], [{"b": 1}]),
    "Others": ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": {"type": "integer"}},
               [{"a": "x", "b": 1}], [{"b": "x"}]),
    "Patterns": ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}},
                 [{"x": 1, "y": "a"}], [{"x": "a"}]),
    "Names": ({"type": "object", "propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}]),
    "Size": ({"type": "object", "minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
    "Requires": ({"type": "object", "properties": {"a": TEXT}, "required": ["b"]}, [{"b": 1}], [{"a": "x"}]),
    "Dependent": ({"type": "object", "dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {}], [{"a": 1}]),
    "DependentSchema": ({"type": "object", "properties": {"a": TEXT}, "dependentSchemas": {"a": {"required": ["b"]}}},
                        [{"a": "x", "b": 1}], [{"a": "x"}]),
    "Unevaluated": ({"allOf": [{"$ref": REF + "Item"}], "unevaluatedProperties": False},
                    [{"name": "a"}], [{"name": "a", "b": 1}]),
    "Beside": ({"$ref": REF + "Text", "minLength": 2}, ["ab"], ["a", 1]),
    "Values": ({"enum": ["a", 1.5, None, {"b": 1}]}, ["a", 1.5, None, {"b": 1}], ["b", {"b": 2}, 1]),
    "True": ({"const": True}, [True], [1, False, "a"]),
    "One": ({"enum": [0, 1]}, [0, 1], [True, False, 2]),
    "Nothing": (False, [], [1, None, {}]),
    "AnyOfBounds": ({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer", "minimum": 5}]},
                    ["a", 5], ["ab", 4]),
    "Inside": ({"type": "object", "properties": {"a": {"type": "array", "items": {"not": {"const": "x"}}}}},
               [{"a": ["y"]}, {}], [{"a": ["x"]}]),
    "Tree": ({"type": "object", "properties": {"inner": {"$ref": REF + "Tree"}, "n": {"exclusiveMinimum": 0}}},
             [{"inner": {"inner": {"n": 1}}}], [{"inner": {"inner": {"n": 0}}}, {"n": -1}]),
    "Record": ({"type": "object", "properties": {"short": {"$ref": REF + "ShortText"}, "many": {"type": "array",
               "items": {"$ref": REF + "Above"}}}}, [{"short": "a", "many": [4]}], [{"short": "abcd"}, {"many": [3]}]),
    "Composed": ({"allOf": [{"$ref": REF + "Item"}, {"properties": {"size": {"type": "integer"}},
                                                      "required": ["size"]}]},
                 [{"name": "a", "size": 1}], [{"name": "a"}, {"size": 1}, {"name": 1, "size": 1}]),
    "Narrowed": ({"allOf": [{"$ref": REF + "Item"}, {"properties": {"name": {"maxLength": 2}}}]},
                 [{"name": "ab"}], [{"name": "abc"}, {}]),
}  # fmt: skip


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The types of all cases, generated as a user does it."""
    folder = tmp_path_factory.mktemp("keywords")
    definitions = {**DEFINITIONS, **{name: schema for name, (schema, _, _) in CASES.items()}}
    (folder / "schema.json").write_text(json.dumps({"$defs": definitions}))
    (folder / "protocol.toml").write_text(
        'name = "K"\nversion = "1"\ndocument = "schema.json"\nformat = "json-schema"\n'
    )
    result = CliRunner().invoke(main, ["protocol", str(folder / "protocol.toml"), "--output", str(folder / "keywords")])
    assert result.exit_code == 0, result.output
    sys.path.insert(0, str(folder))
    module = importlib.import_module("keywords.types")
    sys.path.remove(str(folder))
    return module


def accepts(validate: Callable[[Any], Any], value: Any) -> bool:
    try:
        validate(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_a_type_accepts_what_its_schema_accepts_and_refuses_the_rest(types: ModuleType, name: str) -> None:
    _, accepted, refused = CASES[name]
    validate = validator(getattr(types, f"{name}_" if name == "True" else name))
    assert [value for value in accepted if not accepts(validate, value)] == []
    assert [value for value in refused if accepts(validate, value)] == []


def test_objects_stay_classes_whose_constructors_check(types: ModuleType) -> None:
    composed = types.Composed(name="a", size=1)
    assert isinstance(composed, types.Item) and composed.to_dict() == {"name": "a", "size": 1}
    assert types.Tree(inner=types.Tree(n=1)).to_dict() == {"inner": {"n": 1}}
    assert types.Others(a="x", b=1).to_dict() == {"a": "x", "b": 1}
    for make in (lambda: types.Tree(inner=types.Tree(n=0)), lambda: types.Size(), lambda: types.Narrowed(name="abc")):
        with pytest.raises((ValidationError, TypeError)):
            make()


def test_draft_7_ignores_what_is_beside_a_reference_and_draft_4_has_exclusive_flags() -> None:
    definitions: dict[str, Any] = {
        "Text": {"type": "string"},
        "Beside": {"$ref": "#/definitions/Text", "minLength": 2},
        "Above": {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
    }
    for draft in ("draft-04", "draft-07"):
        schema = read_json_schema(
            {"$schema": f"http://json-schema.org/{draft}/schema#", "definitions": definitions}, "D", SIDES
        ).schema["$defs"]
        assert "x-matches" not in schema["Beside"]
        assert json.loads(schema["Above"]["x-matches"])["exclusiveMinimum"] == 3


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {"$dynamicRef": "#x"}}}, r"A.properties.a has \$dynamicRef"),
        ({"items": {"$id": "other", "type": "string"}}, r"A.items has \$id"),
        ({"anyOf": [{"$recursiveRef": "#"}]}, r"A.anyOf.0 has \$recursiveRef"),
        ({"$ref": "#anchor"}, "#anchor does not refer to a definition of this document by a JSON pointer"),
        ({"$ref": "other.json"}, "other.json does not refer"),
        ({"$ref": "#/$defs/a~1b"}, "a/b is referred to, and not defined"),
        ({"$ref": "#/$defs/A/properties/none"}, "is referred to, and not defined"),
        ({"not": {"type": "text"}}, "A.not has the type 'text'"),
        ({"type": "string", "pattern": "(?=a)b"}, "linear-time"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_place(schema: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match=text):
        from mcp_codegen.protocols.protocol import read_protocol

        (tmp_path / "s.json").write_text(json.dumps({"$defs": {"A": schema}}))
        (tmp_path / "p.toml").write_text('name = "K"\nversion = "1"\ndocument = "s.json"\nformat = "json-schema"\n')
        read_protocol(tmp_path / "p.toml")
