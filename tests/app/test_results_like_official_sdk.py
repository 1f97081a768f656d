"""The same functions as tools of an App and of the official SDK: clients get the same output schemas and results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.peer_drivers import result_functions
from support.peers import driven, python_peer

from mcp_generated import App, Audio, Image
from mcp_generated.v2026_07_28 import types

NAN = "JSON has no NaN and no infinity: an error result says so, where theirs sends NaN, or fails at its client"
VALIDATED = "the schema describes what is sent; theirs describes what pydantic reads, so its own client refuses it"
LEFT_OUT = ("$defs", "x-fastmcp-wrap-result")
LOOSE = "the schema describes what is sent; theirs is that of what pydantic reads, which is wider"
NO_BLOCKS = "content is not repeated as structured content, as in the later version"
NO_IMAGES = "it refuses unions and tuples with an Image, which the later version sends"
NOT_REQUIRED = "a key that may be absent stays absent, as in the later version"

STRUCTURED = "every type that pydantic can write has structured content"
NO_ADDRESS = (
    "a value without a form in JSON is an error; theirs sends the text of `str`, such as the address of an object"
)

# The functions whose outcomes differ, and why.
DIFFERENCES: dict[str, dict[str, str]] = {
    "mcp==2.3.0": {
        **dict.fromkeys(["nan", "infinity", "nan_in_list", "nan_in_dict", "nan_in_model", "absent_nan"], NAN),
        **dict.fromkeys(["model_computed", "model_decimal", "dict_of_decimals"], LOOSE),
        **dict.fromkeys(["date", "datetime", "decimal", "enum", "int_enum", "named_tuple", "path"], STRUCTURED),
        **dict.fromkeys(["str_enum", "timedelta", "uuid"], STRUCTURED),
        **dict.fromkeys(["absent_object", "class_unhinted"], NO_ADDRESS),
        "model_annotated": "the description is that of the result; theirs is that of its type",
        "model_serialized": VALIDATED,
        "dataclass_nested": "a field with a default factory is optional; theirs requires it",
        "class_hinted": "the text is the attributes as JSON; theirs is the address of the object",
        "class_holder": "a class with type hints may contain another one; theirs refuses it",
        "list_of_classes": "a class with type hints may be in a list; theirs refuses it",
    },
}
DIFFERENCES["mcp==1.30.0"] = {
    **DIFFERENCES["mcp==2.3.0"],
    **dict.fromkeys(["content_text", "content_list", "content_mixed"], NO_BLOCKS),
    **dict.fromkeys(["list_of_images", "tuple_with_image", "optional_image"], NO_IMAGES),
    **dict.fromkeys(["typed_dict", "typed_dict_old", "wrong_typed_dict"], NOT_REQUIRED),
    "model_root": "structured content may be an array, as in the later version and in the newest revision",
}


# The rules that error results of functions name.
RULES = {
    "bytes_binary": "return File(data=…)",
    "absent_object": "a value of the type 'Unhinted' has no form in JSON",
    "class_unhinted": "a value of the type 'Unhinted' has no form in JSON",
}


class Ours:
    """What the table of functions needs of this project."""

    types, Image, Audio = types, Image, Audio


async def our_outcomes() -> dict[str, Any]:
    app = App("table", page_size=1000)
    result_functions.add_tools(app, Ours)
    async with app.client_class().memory(app.server) as client:
        outcomes = await result_functions.outcomes(client, result_functions.table(Ours))
    return json.loads(json.dumps(outcomes, allow_nan=False))  # As the peer's outcomes come.


def resolved(schema: Any, definitions: Any = None, depth: int = 0) -> Any:
    """A JSON Schema without titles and FastMCP's mark, with its references replaced: equal ones are equal."""
    if isinstance(schema, list):
        return [resolved(item, definitions, depth) for item in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", definitions)
    if "$ref" in schema:
        if depth == 8:  # It contains itself.
            return schema["$ref"]
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return resolved({**target, **rest}, definitions, depth + 1)
    plain = {name: value for name, value in schema.items() if name not in LEFT_OUT and not is_title(name, value)}
    return {
        name: sorted(value) if name == "required" else resolved(value, definitions, depth)
        for name, value in plain.items()
    }


def is_title(name: str, value: object) -> bool:
    """Return whether a keyword is a title; a property of this name has a schema."""
    return name == "title" and isinstance(value, str)


def comparable(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome without the texts of errors, which are those of the SDK."""
    outcome = {**outcome, "schema": resolved(outcome.get("schema"))}
    return {**outcome, "content": None} if outcome.get("error") else outcome


@pytest.mark.long
@pytest.mark.deadline(120)
@pytest.mark.parametrize("requirement", ["mcp==2.3.0", "mcp==1.30.0"])
async def test_functions_give_what_they_give_in_the_official_sdk(requirement: str) -> None:
    theirs = driven(python_peer(requirement), "result_functions.py")
    ours = await our_outcomes()
    assert len(ours) >= 130 and ours.keys() == theirs.keys()
    assert not [name for name, outcome in ours.items() if "refused" in outcome or "raised" in outcome]
    differing = {name for name in ours if comparable(ours[name]) != comparable(theirs[name])}
    unexpected = differing ^ DIFFERENCES[requirement].keys()
    lines = [f"{name}:\n  ours   {ours[name]}\n  theirs {theirs[name]}" for name in sorted(unexpected)]
    assert not unexpected, "\n".join(lines)


async def test_an_error_result_names_the_tool_and_the_rule() -> None:
    ours = await our_outcomes()
    errors = {name: outcome["content"][0]["text"] for name, outcome in ours.items() if outcome["error"]}
    del errors["own_error"]
    assert {"wrong_int", "wrong_model", "wrong_typed_dict", "own_mismatch", "bytes_binary", "nan"} <= errors.keys()
    for name, text in errors.items():
        assert text.startswith(f"the tool '{name}' returned a value that "), text
        rule = RULES.get(name, "NaN or infinity" if "nan" in name or name == "infinity" else "match its return type")
        assert rule in text, text
