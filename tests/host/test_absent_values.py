"""What is absent in a message is None in Python, for every type of every protocol version: users meet no sentinel."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import MISSING, BaseModel
from support.endpoints import ALL_REVISIONS, Rev, among

import mcp_generated
from mcp_generated import App, Client, Context
from mcp_runtime.protocol.models import fields_of, validator

LISTS = ("tools", "resources", "resource_templates", "prompts", "tasks")
GENERATED = Path(mcp_generated.__file__).parent


def models_of(rev: Rev) -> list[type[BaseModel]]:
    """All types of a revision that are objects."""
    types = [getattr(rev.t, name) for name in dir(rev.t)]
    return [kind for kind in types if isinstance(kind, type) and issubclass(kind, BaseModel)]


def smallest(schema: Any, root: Any) -> Any:
    """A value of a JSON Schema with only what is required."""
    if "$ref" in schema:
        return smallest(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return smallest(schema[key][0], root)
    if "allOf" in schema:
        return smallest(schema["allOf"][0], root)
    kinds: dict[Any, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}
    if schema.get("type", "object") in kinds:
        return kinds[schema["type"]]
    properties = schema.get("properties", {})
    return {name: smallest(properties.get(name, {}), root) for name in schema.get("required", ())}


def values_in(value: object) -> Iterator[object]:
    """A value, and all that its attributes and items have."""
    yield value
    if isinstance(value, BaseModel):
        for name in fields_of(type(value)):
            yield from values_in(getattr(value, name))
        if not any(name in fields_of(type(value)) for name in LISTS):  # Those refuse to be iterated.
            yield from (item for _, item in value)
        for item in (value.model_extra or {}).values():
            yield from values_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from values_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from values_in(item)


def assert_without_sentinel(value: object) -> None:
    assert all(item is not MISSING for item in values_in(value)), value
    assert "MISSING" not in repr(value)


@among(ALL_REVISIONS)
def test_no_type_has_a_sentinel(rev: Rev) -> None:
    walked = 0
    for kind in models_of(rev):
        schema = kind.model_json_schema()
        received = validator(kind)(smallest(schema, schema))
        for model in (received, copy.deepcopy(received), received.model_copy(), pickle.loads(pickle.dumps(received))):
            assert_without_sentinel(model)
            assert model == received
        assert received.model_dump_json() == validator(kind)(received.model_dump()).model_dump_json()
        assert "MISSING" not in str(inspect.signature(kind))
        walked += 1
    assert walked > 50


def test_no_generated_module_shows_a_sentinel() -> None:
    sources = [path.read_text(encoding="utf-8") for path in GENERATED.rglob("*.py")]
    assert len(sources) > 50
    assert not [source for source in sources if "MISSING" in source.replace("MISSING_REQUIRED", "")]


@among(ALL_REVISIONS)
async def test_no_result_of_a_call_has_a_sentinel(rev: Rev) -> None:
    app = App("all")

    @app.tool()
    async def tell(ctx: Context) -> str:
        """Log something."""
        await ctx.info("x")
        await ctx.progress(1)
        return "told"

    @app.tool(structured_output=False)
    def plain() -> str:
        """Return a text."""
        return "x"

    app.add_resource("text://one", lambda: "1", name="one")
    app.add_resource("text://{name}", lambda name: name, name="any")

    @app.prompt()
    def greet(name: str) -> str:
        """Greet."""
        return f"Hi {name}."

    heard: list[Any] = []
    async with Client(app, revisions=rev.id, on_message=heard.append, log_level="debug") as client:
        results = [
            client.server,
            await client.list_tools(),
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.list_prompts(),
            await client.read_resource("text://one"),
            await client.get_prompt("greet", {"name": "A"}),
            *[(await client.call_tool(name)).raw for name in ("tell", "plain")],
        ]
        output = await client.call_tool("plain")
        assert output.structured_content is None and output.raw.structured_content is None
        assert "structuredContent" not in output.raw.model_dump()
    assert heard
    for result in (*results, *heard):
        assert_without_sentinel(result)


def test_null_is_none_and_stays_null() -> None:
    kind = mcp_generated.v2026_07_28.types.CallToolResult  # type: ignore[attr-defined]
    null = validator(kind)({"resultType": "complete", "content": [], "structuredContent": None})
    absent = validator(kind)({"resultType": "complete", "content": []})
    assert (null.structured_content, absent.structured_content) == (None, None)
    assert (null.model_dump().get("structuredContent", 0), absent.model_dump().get("structuredContent", 0)) == (None, 0)
    absent.structured_content = 5
    assert (absent.structured_content, absent.model_dump()["structuredContent"]) == (5, 5)
    assert kind.model_json_schema()["properties"]["structuredContent"].get("default", 0) == 0

    class Own(kind):  # type: ignore[misc, valid-type]
        more: int = 1

    own = Own(content=[])
    assert own.structured_content is None
    assert own.model_dump_json() == '{"resultType":"complete","content":[],"more":1}'


@pytest.mark.parametrize("name", ["ErrorObject", "Error"])
@among(ALL_REVISIONS)
def test_the_data_of_an_error_may_be_absent(rev: Rev, name: str) -> None:
    kind = getattr(rev.t, name, None)
    if kind is None:
        kind = next(kind for kind in models_of(rev) if "data" in fields_of(kind) and "code" in fields_of(kind))
    assert kind(code=1, message="x").data is None
