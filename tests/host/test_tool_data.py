"""`output.data`: checked with the output schema of the tool, and made of the types that it names."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.util import find_spec
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel
from support.endpoints import Rev, Tap, among, server_of, since

from mcp_generated import App, Client, InvalidResponseError, LocalError, SyncClient, ToolData
from mcp_generated.v2026_07_28 import types as t
from mcp_products.host import outputs

STRUCTURED = since("2025-06-18")
CHECKS = pytest.mark.skipif(find_spec("jsonschema_rs") is None, reason="jsonschema-rs is not installed")
NEWEST = Rev("2026-07-28")
ID = UUID("12345678-1234-5678-1234-567812345678")


def serving(schema: dict[str, Any] | None, structured: Any, meta: dict[str, Any] | None = None, **has: Any) -> Any:
    """A server with one tool, which has this output schema and returns this."""
    tool = t.Tool(
        name="find",
        input_schema=t.ToolInputSchema(),
        output_schema=None if schema is None else t.ToolOutputSchema.model_validate(schema),
    )
    result = t.CallToolResult.model_validate(
        {
            "resultType": "complete",
            "content": [{"type": "text", "text": "found"}],
            "structuredContent": structured,
            **({} if meta is None else {"_meta": meta}),
        }
    )
    if structured is ...:
        result = t.CallToolResult(content=[t.TextContent(text="found")])
    return server_of(
        NEWEST,
        list_tools=lambda ctx, params: t.ListToolsResult(tools=[tool]),
        call_tool=lambda ctx, params: result,
        **has,
    )


async def found(schema: dict[str, Any] | None, structured: Any, meta: dict[str, Any] | None = None) -> Any:
    async with Client(serving(schema, structured, meta)) as client:
        return (await client.call_tool("find")).data


@dataclass
class Stop:
    place: str
    at: datetime
    tags: set[str]


class Trip(BaseModel):
    id: UUID
    day: date
    wake: time
    lasts: timedelta
    stops: list[Stop]
    best: Stop | None = None
    of: dict[str, Stop]
    place: tuple[int, str]
    rest: dict[str, int] | str


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@among(STRUCTURED)
async def test_data_has_the_types_of_the_function(rev: Rev) -> None:
    app = App("trips")
    stop = Stop("Oslo", NOON, {"sea"})

    @app.tool()
    def trip() -> Trip:
        """Return a trip."""
        return Trip(
            id=ID,
            day=date(2026, 5, 1),
            wake=time(7, 30),
            lasts=timedelta(hours=3),
            stops=[stop],
            of={"first": stop},
            place=(1, "a"),
            rest={"x": 1},
        )

    async with Client(app, revisions=rev.id) as client:
        data = (await client.call_tool("trip")).data
        again = (await client.call_tool("trip")).data
    assert (data.id, data.day, data.wake, data.lasts) == (ID, date(2026, 5, 1), time(7, 30), timedelta(hours=3))
    assert (data.stops[0].place, data.stops[0].at, data.stops[0].tags) == ("Oslo", NOON, {"sea"})
    assert data.of["first"] == data.stops[0]
    assert (data.best, data.place, data.rest) == (None, (1, "a"), {"x": 1})
    assert (type(data).__name__, type(data.stops[0]).__name__) == ("Trip", "Stop")
    assert type(data) is type(again) and data == again


async def test_values_of_functions_that_are_no_objects_have_no_wrapper() -> None:
    app = App("values")

    @app.tool()
    def when() -> datetime:
        """Return a time."""
        return NOON

    @app.tool()
    def letters() -> set[Literal["a", "b"]]:
        """Return letters."""
        return {"a"}

    @app.tool()
    def maybe() -> Stop | None:
        """Return a stop."""
        return Stop("Oslo", NOON, set())

    async with Client(app) as client:
        assert (await client.call_tool("when")).data == NOON
        assert (await client.call_tool("letters")).data == {"a"}
        assert (await client.call_tool("maybe")).data.at == NOON


RESULT = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}


@pytest.mark.parametrize(
    ("schema", "meta", "expected"),
    [
        (RESULT, None, 3),
        ({**RESULT, "title": "addOutput"}, None, 3),
        ({**RESULT, "title": "Anything", "x-fastmcp-wrap-result": True}, None, 3),
        (None, {"fastmcp": {"wrap_result": True}}, 3),
        (None, None, {"result": 3}),
        ({"type": "object"}, None, {"result": 3}),
        ({**RESULT, "required": []}, None, "Find(result=3)"),
        ({**RESULT, "title": "Outcome"}, None, "Outcome(result=3)"),
        (
            {**RESULT, "properties": {"result": {"type": "integer"}, "rest": {"type": "string"}}},
            None,
            "Find(result=3)",
        ),
    ],
)
async def test_the_wrapper_is_taken_off_where_the_schema_says_so(
    schema: dict[str, Any] | None, meta: dict[str, Any] | None, expected: Any
) -> None:
    data = await found(schema, {"result": 3}, meta)
    assert (repr(data) if isinstance(expected, str) else data) == expected


@CHECKS
@pytest.mark.parametrize(
    ("schema", "structured", "place"),
    [
        (RESULT, {"result": "x"}, "result: "),
        ({"type": "object", "properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, r"a\.1: "),
        (RESULT, {}, "'?\"?result"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}, {}, "dialect"),
        ({"type": "object", "properties": {"a": {"pattern": "(a|b)*c", "uniqueItems": True}}}, {"a": [1, 1]}, "a: "),
    ],
)
async def test_content_that_contradicts_its_schema_is_refused(
    schema: dict[str, Any], structured: Any, place: str
) -> None:
    async with Client(serving(schema, structured)) as client:
        with pytest.raises(InvalidResponseError, match=f"the tool 'find' .*{place}.*strict=False"):
            await client.call_tool("find")
        with pytest.raises(InvalidResponseError, match="'find'"):
            await client.call_tool("find", output=dict)
        assert (await client.call_tool("find", strict=False)).structured_content == structured
    async with Client(serving(schema, structured), strict=False) as client:
        assert (await client.call_tool("find")).structured_content == structured
        with pytest.raises(InvalidResponseError, match="strict=False"):
            await client.call_tool("find", strict=True)
    with SyncClient(serving(schema, structured)) as plain:
        with pytest.raises(InvalidResponseError, match="strict=False"):
            plain.call_tool("find")
        assert plain.call_tool("find", strict=False).structured_content == structured


@CHECKS
async def test_a_check_that_would_take_long_is_refused() -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"anyOf": [{"minimum": n} for n in range(200)]}}}}
    async with Client(serving(schema, {"a": [-1] * 50_000})) as client:
        with pytest.raises(InvalidResponseError, match="too large for its JSON Schema.*strict=False"):
            await client.call_tool("find")


async def test_a_promised_content_may_lack_unless_everything_is_checked() -> None:
    async with Client(serving(RESULT, ...)) as client:
        output = await client.call_tool("find")
        assert (output.data, output.structured_content, output.text) == (None, None, "found")
        with pytest.raises(InvalidResponseError, match="no structured content; pass strict=False"):
            await client.call_tool("find", strict=True)
    async with Client(serving(RESULT, ...), strict=True) as client:
        with pytest.raises(InvalidResponseError, match="no structured content"):
            await client.call_tool("find")


async def test_a_failed_call_is_not_checked() -> None:
    app = App("failing")

    @app.tool()
    def fail() -> int:
        """Fail."""
        raise ValueError("x")

    async with Client(app, strict=True) as client:
        assert (await client.call_tool("fail", raise_on_error=False)).is_error


async def test_tools_are_listed_once_and_when_they_have_changed() -> None:
    app = App("changing")
    app.add_tool(lambda: {"result": 1}, name="find", description="Find.", output_schema=RESULT)
    tap = Tap(app.as_server())
    async with Client(tap, cache=False) as client:
        for _ in range(3):
            await client.call_tool("find")
        assert tap.methods().count("tools/list") == 1
        app.remove_tool("find")
        new = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
        app.add_tool(lambda: {"result": "one"}, name="find", description="Find.", output_schema=new)
        assert (await client.call_tool("find")).data == "one"
        assert tap.methods().count("tools/list") == 2


async def test_a_server_that_cannot_list_its_tools_is_called_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    def fail(ctx: Any, params: Any) -> Any:
        raise ValueError("no list")

    broken = server_of(
        NEWEST, list_tools=fail, call_tool=lambda ctx, params: t.CallToolResult(structured_content=[1], content=[])
    )
    with caplog.at_level(logging.WARNING, "mcp_runtime.host.outputs"):
        tap = Tap(broken)
        async with Client(tap) as client:
            for _ in range(3):
                assert (await client.call_tool("find")).data == [1]
    assert caplog.text.count("cannot be listed") == 1
    assert tap.methods().count("tools/list") == 1


async def test_without_a_validator_content_is_not_checked_which_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compile_schema(schema: Any) -> Any:
        raise LocalError("a schema needs jsonschema-rs")

    monkeypatch.setattr(outputs, "compile_schema", compile_schema)
    async with Client(serving(RESULT, {"result": "x"})) as client:
        for _ in range(2):
            assert (await client.call_tool("find")).structured_content == {"result": "x"}
        assert caplog.text.count("structured content is not checked: a schema needs jsonschema-rs") == 1
        with pytest.raises(LocalError, match="jsonschema-rs"):
            await client.call_tool("find", strict=True)


class Stay(BaseModel):
    city: str
    nights: int = 1


async def test_an_object_has_its_names_and_an_output_names_what_is_misspelt() -> None:
    app = App("app")

    @app.tool()
    def stay() -> Stay:
        return Stay(city="Oslo")

    async with Client(app) as client:
        output = await client.call_tool("stay")
    assert "city" in output.data and "days" not in output.data
    assert [*output.data] == ["city", "nights"]
    misspelt: Any = output
    with pytest.raises(AttributeError, match="did you mean 'is_error'"):
        assert misspelt.isError
    with pytest.raises(AttributeError, match="did you mean 'structured_content'"):
        assert misspelt.structuredContent


async def test_recursive_and_chosen_types() -> None:
    schema = {
        "type": "object",
        "title": "Node",
        "properties": {
            "child": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
            "shape": {"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]},
            "many": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/Square"}, {"title": "Big"}]}},
            "count": {"type": "integer"},
            "class": {"type": "string", "default": "none"},
        },
        "additionalProperties": {"type": "string", "format": "date"},
        "$defs": {
            "Circle": {
                "title": "Circle",
                "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
                "required": ["kind"],
            },
            "Square": {
                "title": "Square",
                "properties": {"kind": {"const": "square"}, "day": {"type": "string", "format": "date"}},
                "required": ["kind"],
            },
        },
    }
    square = {"kind": "square", "day": "2026-05-01"}
    data = await found(
        schema,
        {
            "child": {"child": None, "shape": {"kind": "circle", "r": 1.5}},
            "shape": square,
            "many": [square],
            "count": 5.0,
            "other": "2026-05-02",
            "a-b": "soon",
        },
    )
    assert (data.child.child, data.child.shape.r, type(data.child.shape).__name__) == (None, 1.5, "Circle")
    assert (data.shape.day, data.many[0].day) == (date(2026, 5, 1), date(2026, 5, 1))
    assert (data.count, type(data.count), data["class"], data.other) == (5, int, "none", date(2026, 5, 2))
    assert data["a-b"] == "soon"  # A format is an annotation: the text has none, and stays.
    assert data.to_dict()["shape"] == {"kind": "square", "day": date(2026, 5, 1)}
    with pytest.raises(AttributeError, match="did you mean 'shape'"):
        data.shpe
    with pytest.raises(TypeError):
        hash(data)


async def test_data_is_an_argument_of_another_call() -> None:
    app = App("echo")

    @app.tool()
    def stop() -> Stop:
        """Return a stop."""
        return Stop("Oslo", NOON, set())

    @app.tool()
    def place(stop: Stop) -> str:
        """Return the place of a stop."""
        return stop.place

    async with Client(app) as client:
        data = (await client.call_tool("stop")).data
        assert isinstance(data, ToolData)
        assert (await client.call_tool("place", {"stop": data})).data == "Oslo"


HOSTILE: dict[str, Any] = {
    "a reference to itself": {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
    "references in a circle": {
        "type": "object",
        "properties": {"a": {"allOf": [{"$ref": "#/properties/b"}]}, "b": {"$ref": "#/properties/a"}},
    },
    "no pointer": {"type": "object", "properties": {"a": {"$ref": "#/properties/0/~2"}, "b": {"$ref": "other"}}},
    "names of methods": {"type": "object", "properties": {"to_dict": {}, "__class__": {}, "_defaults": {}}},
    "many parts": {"type": "object", "properties": {f"p{n}": {"type": "array", "items": {}} for n in range(3000)}},
    "values of wrong types": {
        "type": [{}],
        "properties": {"a": {"type": {}, "format": [], "anyOf": [{"required": [{}], "type": [[]], "enum": 1}]}},
        "required": {},
        "additionalProperties": {
            "format": {},
            "prefixItems": [[]],
            "items": 1,
            "maxItems": [],
            "$ref": {},
            "allOf": [1],
        },
    },
    "titles that are not names": {"type": "object", "title": "1; import os", "properties": {"a": {"type": "integer"}}},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_schemas_of_strangers_make_no_harm(kind: str) -> None:
    declared = outputs.OutputType("find", HOSTILE[kind])
    value = {"a": 1, "b": {}, "to_dict": 5, "__class__": "x", "_defaults": 3, "p2999": [1]}
    data = declared.value(value)
    assert isinstance(data, ToolData) and type(data).__name__.isidentifier()
    assert ToolData.to_dict(data) == value


def test_deep_schemas_and_values_make_no_harm() -> None:
    schema: dict[str, Any] = {"type": "string", "format": "date"}
    value: Any = "2026-05-01"
    for _ in range(500):
        schema, value = {"type": "object", "properties": {"a": schema}}, {"a": value}
    data = outputs.OutputType("find", schema).value(value)
    assert isinstance(data.a.a, ToolData)
