"""Tools made of functions: what the list shows, what is checked, and what becomes of what they return."""

from __future__ import annotations

import base64
import json
import logging
import threading
from functools import cached_property
from importlib import import_module
from typing import Any

import pytest
from support.clients import connect
from support.installation.extras import needs, optional
from support.servers.app import app

from mcp_generated import App, Context, tool
from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.errors import InvalidSchemaError, LocalError, RemoteJSONRPCError

jsonschema = optional("jsonschema")
INVALID_PARAMS = -32602


async def definition(name: str) -> dict[str, Any]:
    return next(tool for tool in await app.list_tools() if tool.name == name).model_dump(exclude_none=True)


async def text_of(name: str, **arguments: Any) -> str:
    """The only text of a result that is not an error."""
    result = await app.call_tool(name=name, arguments=arguments)
    assert result.is_error is None, result
    [content] = result.content
    assert isinstance(content, t.TextContent)
    return content.text


async def complaint(name: str, **arguments: Any) -> str:
    """The only text of a result that is an error."""
    result = await app.call_tool(name=name, arguments=arguments)
    assert result.is_error is True
    [content] = result.content
    assert isinstance(content, t.TextContent)
    return content.text


async def test_hints_defaults_and_docstring_become_the_input_schema() -> None:
    listed = await definition("google")
    assert listed["description"] == "Say the weather.\n\nIt may rain."
    assert listed["inputSchema"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where it is."},
            "days": {"type": "integer", "default": 3, "description": "How many days."},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert listed["outputSchema"]["properties"] == {"result": {"type": "string"}}


@pytest.mark.parametrize("name", ["google", "numpy_style", "rest_style"])
async def test_docstrings_of_each_style_describe_the_arguments(name: str) -> None:
    listed = await definition(name)
    assert listed["inputSchema"]["properties"]["city"]["description"] == "Where it is."
    assert listed["description"].startswith("Say the weather.") and "Where" not in listed["description"]


async def test_a_tool_says_its_title_annotations_icons_and_limits() -> None:
    listed = await definition("get-forecast")
    assert (listed["title"], listed["annotations"], listed["icons"]) == (
        "Forecast",
        {"readOnlyHint": True},
        [{"src": "https://x.test/i.png"}],
    )
    latitude = {"type": "number", "minimum": -90, "maximum": 90, "description": "In degrees."}
    assert listed["inputSchema"]["properties"] == {"latitude": latitude}


@pytest.mark.parametrize("module", ["v2025_11_25.types", "v2026_07_28.types", "compat.types"])
async def test_annotations_may_be_those_of_any_version_and_of_compat(module: str) -> None:
    annotations = import_module(f"mcp_generated.{module}").ToolAnnotations(title="Forecast", read_only_hint=True)
    app = App("weather")
    app.add_tool(lambda: "sun", "sun", annotations=annotations)
    async with connect(app) as client:
        [listed] = (await client.list_tools()).tools
    assert listed.to_dict()["annotations"] == {"title": "Forecast", "readOnlyHint": True}


async def test_an_injected_context_is_not_an_argument() -> None:
    assert [*(await definition("who"))["inputSchema"]["properties"]] == ["greeting"]
    assert await text_of("who") == "hello mcp-generated, sample"
    assert "ctx" in await complaint("who", ctx={})


async def test_the_order_of_the_list_is_that_of_the_file_and_every_schema_is_one() -> None:
    tools = await app.list_tools()
    assert [tool.name for tool in tools][:4] == ["google", "numpy_style", "rest_style", "get-forecast"]
    for listed in tools:
        shown = listed.model_dump(exclude_none=True)
        jsonschema.Draft202012Validator.check_schema(shown["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(shown.get("outputSchema", {}))


@pytest.mark.clause("draft/tools/09", "draft/tools/10")
@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("point", {"x": 3}, {"x": 3, "y": 0}),
        ("tree", {}, {"name": "root", "inner": [{"name": "leaf", "inner": []}]}),
        ("size", {}, {"width": 1.5, "height": 2.0}),
        ("row", {}, {"id": 7}),
        ("table", {}, {"pi": 3.14}),
        ("total", {"numbers": [1, 2]}, {"result": 3}),
        ("names", {}, {"result": ["a", "b"]}),
        pytest.param("own_output", {}, {"ok": True}, marks=needs("app")),
    ],
)
async def test_a_return_type_is_the_output_schema_of_structured_content(
    name: str, arguments: dict[str, Any], value: Any
) -> None:
    result = await app.call_tool(name=name, arguments=arguments)
    assert result.structured_content == value
    schema = (await definition(name))["outputSchema"]
    assert schema["type"] == "object"
    texts = [block.text for block in result.content if isinstance(block, t.TextContent)]
    expected = value.get("result", value)
    items = expected if isinstance(expected, list) else [expected]
    assert [
        text if isinstance(item, str) else json.loads(text) for text, item in zip(texts, items, strict=True)
    ] == items
    jsonschema.validate(value, schema)


async def test_text_media_and_resources_come_as_they_are() -> None:
    result = await app.call_tool(name="mixed")
    text, image, audio, note = result.content
    assert isinstance(text, t.TextContent) and text.text == "see"
    assert isinstance(image, t.ImageContent) and base64.b64decode(image.data) == b"png"
    assert isinstance(audio, t.AudioContent) and (image.mime_type, audio.mime_type) == ("image/png", "audio/mpeg")
    assert isinstance(note, t.EmbeddedResource) and note.resource.uri == "note://1"
    assert "structured_content" not in result.model_dump(exclude_unset=True)
    assert "outputSchema" not in await definition("mixed")


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("get-forecast", {"latitude": "47.6"}, "latitude: Input should be a valid number"),
        ("get-forecast", {"latitude": 91}, "less than or equal to 90"),
        ("get-forecast", {}, "latitude: Field required"),
        ("google", {"city": "x", "dais": 1}, "dais: Extra inputs are not permitted"),
        ("google", {"city": "x", "days": True}, "days: Input should be a valid integer"),
        ("total", {"numbers": [1, "2"]}, "numbers.1"),
        ("when", {"day": 5, "colour": "red", "ids": []}, "day"),
        ("when", {"day": "2026-02-30", "colour": "red", "ids": []}, "day"),
        ("when", {"day": "2026-02-03", "colour": "blue", "ids": []}, "colour"),
        pytest.param("own_schema", {"n-th": 0}, "n-th: 0 is less than the minimum of 1", marks=needs("app")),
        pytest.param("own_schema", {}, '"n-th" is a required property', marks=needs("app")),
    ],
)
@pytest.mark.clause("draft/tools/12")
async def test_arguments_that_do_not_fit_are_told_to_the_model(
    name: str, arguments: dict[str, Any], reason: str
) -> None:
    assert reason in await complaint(name, **arguments)


async def test_what_json_has_no_type_for_comes_as_text_and_whole_numbers_may_have_a_point() -> None:
    arguments = {"day": "2026-02-03", "colour": "red", "ids": [2, 1], "where": {"x": 4}}
    assert await text_of("when", **arguments) == "2026-02-03 RED [1, 2] 4"
    assert await text_of("google", city="x", days=2.0) == "x 2"


async def test_coercion_is_an_option() -> None:
    assert await text_of("lenient", number="5") == "5"
    lenient = App("lenient", coerce=True)

    @lenient.tool()
    def double(number: float) -> str:
        return f"{2 * number:g}"

    result = await lenient.call_tool(name="double", arguments={"number": "1.5"})
    assert result.content == [t.TextContent(text="3")]


@needs("app")
async def test_a_schema_of_ones_own_is_shown_and_checked() -> None:
    assert (await definition("own_schema"))["inputSchema"]["properties"]["n-th"]["minimum"] == 1
    assert await text_of("own_schema", **{"n-th": 3}) == "the 3th"


@pytest.mark.clause("draft/tools/10")
@pytest.mark.parametrize(
    ("name", "arguments"), [("wrong", {}), pytest.param("own_output", {"lie": True}, marks=needs("app"))]
)
async def test_output_that_is_not_as_declared_is_never_sent(
    name: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    text = await complaint(name, **arguments)
    assert f"the tool '{name}' returned a value that does not match its" in text and text in caplog.text


async def test_the_model_reads_why_a_tool_refuses_but_not_why_it_broke(caplog: pytest.LogCaptureFixture) -> None:
    assert await complaint("refuses") == "not on a Sunday"
    assert await complaint("misses") == "'nothing there'"
    with caplog.at_level(logging.ERROR):
        assert await complaint("fails") == "the tool 'fails' failed"
    assert "swordfish" in caplog.text


async def test_an_unknown_tool_is_an_error_of_the_protocol() -> None:
    with pytest.raises(RemoteJSONRPCError, match="unknown tool: 'nope'") as caught:
        await app.call_tool(name="nope")
    assert caught.value.code == INVALID_PARAMS


async def test_plain_functions_run_beside_the_event_loop() -> None:
    result = await app.call_tool(name="thread")
    assert result.structured_content == {"result": False}


class Desk:
    """Something with methods."""

    def __init__(self, city: str) -> None:
        self._city = city

    def where(self) -> str:
        """Say where it is."""
        return self._city

    async def move(self, city: str, ctx: Context) -> str:
        self._city = city
        return f"moved to {city}"

    def _hidden(self) -> str:
        return "secret"


class Marked(Desk):
    @tool("say-hello", title="Hello")
    def hello(self, name: str) -> str:
        return f"hello {name} from {self._city}"


async def test_all_public_methods_of_an_object_become_tools_or_the_marked_ones() -> None:
    desk, marked = App("desk"), App("marked")
    desk.add_tools(Desk("Paris"))
    marked.add_tools(Marked("Rome"))
    assert [tool.name for tool in await desk.list_tools()] == ["move", "where"]
    assert [(tool.name, tool.title) for tool in await marked.list_tools()] == [("say-hello", "Hello")]
    result = await marked.call_tool(name="say-hello", arguments={"name": "Ann"})
    assert result.content == [t.TextContent(text="hello Ann from Rome")]


def test_an_unknown_keyword_is_a_type_error_that_names_it() -> None:
    broken: Any = App("broken")
    for decorate in (broken.tool, broken.prompt, lambda **settings: broken.resource("a://b", **settings)):
        with pytest.raises(TypeError, match="no keyword argument 'colour'"):
            decorate(colour="red")
    for settings in ({"colour": "red"}, {"port": 1}):
        with pytest.raises(TypeError, match=f"{min(settings)}"):
            broken.asgi(**settings)
        with pytest.raises(TypeError, match=f"{min(settings)}"):
            broken.run("stdio", **settings)


def test_what_cannot_be_a_tool_is_refused_at_once() -> None:
    broken = App("broken")

    def several(*cities: str) -> str:
        return ""

    def unknown(city: object = object, where: Nowhere = None) -> str:  # type: ignore[name-defined]  # noqa: F821
        return ""

    with pytest.raises(
        LocalError, match=r"the tool 'several': the parameter \*cities: str must accept a keyword argument"
    ):
        broken.add_tool(several)
    with pytest.raises(LocalError, match="Nowhere"):
        broken.add_tool(unknown)
    with pytest.raises(LocalError, match="is not a tool name"):
        broken.add_tool(lambda: "", "a b")
    with pytest.raises(InvalidSchemaError, match="never fetched"):
        broken.add_tool(lambda arguments: "", "far", input_schema={"$ref": "https://x.test/s"})
    broken.add_tool(lambda: "", "once")
    with pytest.raises(LocalError, match="has 'once' among its tools already"):
        broken.add_tool(lambda: "", "once")


@pytest.mark.parametrize("thread", [None, True, False])
async def test_a_plain_function_runs_in_a_thread_unless_it_stays_in_the_event_loop(thread: bool | None) -> None:
    app, threads = App("threads"), list[bool]()
    keywords: Any = {} if thread is None else {"thread": thread}

    def note() -> str:
        threads.append(threading.current_thread() is not threading.main_thread())
        return "noted"

    app.tool("note", **keywords)(note)
    app.prompt("note", **keywords)(note)
    app.resource("note://one", **keywords)(note)
    async with connect(app) as client:
        assert (await client.call_tool("note")).structured_content == {"result": "noted"}
        await client.get_prompt("note")
        await client.read_resource("note://one")
    assert threads == [thread is not False] * 3


async def test_methods_are_added_without_a_look_at_the_properties() -> None:
    class Shop:
        @property
        def database(self) -> Any:
            raise AssertionError("it is opened")

        @cached_property
        def cache(self) -> Any:
            raise AssertionError("it is opened")

        @staticmethod
        def close() -> str:
            return "closed"

        def open(self) -> str:
            return "open"

    shop = App("shop")
    shop.add_tools(Shop())
    assert [tool.name for tool in await shop.list_tools()] == ["close", "open"]
