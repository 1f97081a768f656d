"""Results of every type: structured content in the names of the type, or an error that names the value."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import json
import pathlib
import re
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
import typing_extensions
from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    computed_field,
    field_serializer,
)
from pydantic import dataclasses as pydantic_dataclasses
from pydantic.alias_generators import to_camel
from support.clients import connect

from mcp_generated import App, File, Image, RemoteJSONRPCError, UserMessage
from mcp_generated.v2026_07_28 import types as t


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 1


class Word(enum.StrEnum):
    YES = "yes"


class Pair(NamedTuple):
    a: int
    b: datetime.date


class Name(str):
    pass


@dataclasses.dataclass
class Point:
    x: int


class Named(BaseModel):
    """A model whose values have the names of Python."""

    model_config = ConfigDict(alias_generator=to_camel, serialize_by_alias=False, validate_by_name=True)

    my_name: int = 1


class Aliased(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)

    my_name: int = 1
    inner_value: Named = Named()
    hidden: int = Field(3, exclude=True)

    @computed_field
    @property
    def whole_sum(self) -> int:
        return 4

    @field_serializer("my_name")
    def written(self, value: int) -> str:
        return f"n{value}"


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)

    my_name: int = Field(alias="myName")


@pydantic_dataclasses.dataclass(config=ConfigDict(alias_generator=to_camel, serialize_by_alias=False))
class NamedData:
    my_name: int = 1


class Plain:
    pass


DAY = datetime.date(2026, 1, 2)
# Return types, a value, and its JSON form.
TYPES: dict[str, tuple[Any, Any, Any]] = {
    "enumeration": (Colour, Colour.RED, "red"),
    "enumeration of integers": (Level, Level.HIGH, 1),
    "enumeration of texts": (Word, Word.YES, "yes"),
    "date": (datetime.date, DAY, "2026-01-02"),
    "time": (datetime.time, datetime.time(1, 2), "01:02:00"),
    "datetime": (datetime.datetime, datetime.datetime(2026, 1, 2), "2026-01-02T00:00:00"),
    "timedelta": (datetime.timedelta, datetime.timedelta(days=1), "P1D"),
    "UUID": (uuid.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "Decimal": (decimal.Decimal, decimal.Decimal("1.50"), "1.50"),
    "Fraction": (fractions.Fraction, fractions.Fraction(1, 2), "1/2"),
    "complex": (complex, 1j, "1j"),
    "Path": (pathlib.Path, pathlib.Path("/a"), str(pathlib.Path("/a"))),
    "named tuple": (Pair, Pair(1, DAY), [1, "2026-01-02"]),
    "set": (set[datetime.date], {DAY}, ["2026-01-02"]),
    "frozenset": (frozenset[int], frozenset({1}), [1]),
    "tuple": (tuple[int, datetime.date], (1, DAY), [1, "2026-01-02"]),
    "union": (Point | datetime.date | list[Colour], [Colour.RED], ["red"]),
    "optional": (datetime.date | None, None, None),
    "pattern": (re.Pattern[str], re.compile("a"), "a"),
    "IP address": (ipaddress.IPv4Address, ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
    "secret": (SecretStr, SecretStr("geheim"), "**********"),
    "URL": (AnyUrl, AnyUrl("https://example.com/a"), "https://example.com/a"),
    "literal": (Literal["a", 1], 1, 1),
    "subclass of str": (Name, Name("a"), "a"),
    "annotated": (Annotated[datetime.date, "when"], DAY, "2026-01-02"),
    "dict of dates": (dict[int, datetime.date], {1: DAY}, {"1": "2026-01-02"}),
}


@pytest.mark.parametrize("name", TYPES)
async def test_a_type_that_pydantic_can_write_has_structured_content(name: str) -> None:
    hint, value, expected = TYPES[name]
    app = App("types")

    def function() -> Any:
        return value

    function.__annotations__ = {"return": hint}
    app.add_tool(function)
    async with connect(app) as client:
        [tool] = (await client.list_tools()).tools
        assert tool.output_schema is not None and "result" in tool.output_schema.to_dict()["properties"]
        result = await client.call_tool("function", {})  # The client validates it with the schema.
    assert not result.is_error and result.structured_content == {"result": expected}


@pytest.mark.parametrize("hint", [Generator[int, None, None], Iterator[int], Iterable[int]])
@pytest.mark.parametrize("kind", [iter, lambda items: (item for item in items), lambda items: map(int, items)])
async def test_items_that_can_be_read_once_are_in_content_and_structure(hint: Any, kind: Callable[..., Any]) -> None:
    app = App("types")

    def function() -> Any:
        return kind([1, 2])

    function.__annotations__ = {"return": hint}
    app.add_tool(function)
    async with connect(app) as client:
        result = await client.call_tool("function", {})
    assert not result.is_error and result.structured_content in ({"result": [1, 2]}, None)
    assert [block.text for block in result.content] == ["1", "2"]
    assert result.structured_content is not None or hint == Iterator[int]


async def test_a_text_in_annotated_is_the_description() -> None:
    app = App("texts")

    @app.tool
    def double(
        number: Annotated[int, "the number"],
        places: Annotated[int, typing_extensions.Doc("its places")] = 1,
        mode: Annotated[str, Field(max_length=3), "how"] = "a",
        stated: Annotated[int, "a text", Field(description="the field's")] = 1,
        items: list[Annotated[int, "an item"]] | None = None,
        choice: Literal["a", "b"] = "a",
    ) -> Annotated[int, "the double"]:
        """Double a number.

        Args:
            number: What the docstring says.
            choice: One of two.
        """
        return 2 * number

    @app.tool
    def where() -> Annotated[Point, "the place"]:
        return Point(1)

    @app.prompt
    def ask(topic: Annotated[str, "the topic"], depth: Annotated[int, typing_extensions.Doc("how deep")] = 1) -> str:
        return f"{topic}{depth}"

    tools = {tool.name: tool for tool in await app.list_tools()}
    properties = tools["double"].input_schema.to_dict()["properties"]
    assert {name: field.get("description") for name, field in properties.items()} == {
        "number": "the number",
        "places": "its places",
        "mode": "how",
        "stated": "the field's",
        "items": None,
        "choice": "One of two.",
    }
    assert properties["items"]["anyOf"][0]["items"] == {"description": "an item", "type": "integer"}
    assert properties["mode"]["maxLength"] == 3
    output = tools["double"].output_schema
    assert output is not None and output.to_dict()["properties"]["result"]["description"] == "the double"
    output = tools["where"].output_schema
    assert output is not None and output.to_dict()["description"] == "the place"
    assert "$defs" not in output.to_dict() and [*output.to_dict()["properties"]] == ["x"]
    [prompt] = await app.list_prompts()
    assert [argument.description for argument in prompt.arguments or []] == ["the topic", "how deep"]
    assert (await app.call_tool("double", {"number": 2})).structured_content == {"result": 4}


async def test_a_text_beside_a_complete_result_is_no_type() -> None:
    from mcp_generated.v2026_07_28 import types as t

    app = App("texts")

    def whole() -> Any:
        return t.CallToolResult(content=[])

    whole.__annotations__ = {"return": Annotated[t.CallToolResult, "what it does"]}
    app.add_tool(whole)
    [tool] = await app.list_tools()
    assert tool.output_schema is None and not (await app.call_tool("whole", {})).is_error


INNER = {"my_name": 1}
ALIASED = {"myName": "n1", "innerValue": INNER, "wholeSum": 4}
NAMES: dict[str, tuple[Any, Any, Any]] = {
    "model": (Named, Named(), INNER),
    "default": (Aliased, Aliased(), ALIASED),
    "list": (list[Named], [Named()], {"result": [INNER]}),
    "dict": (dict[str, Named], {"a": Named()}, {"a": INNER}),
    "union": (Named | int, Named(), {"result": INNER}),
    "dataclass": (NamedData, NamedData(), INNER),
    "any": (dict[str, Any], {"a": [Named()], "b": Aliased()}, {"a": [INNER], "b": ALIASED}),
}


@pytest.mark.parametrize("name", NAMES)
async def test_the_configuration_of_a_type_says_by_which_names_it_is_written(name: str) -> None:
    hint, value, expected = NAMES[name]
    app = App("names", json_indent=None)

    def function() -> Any:
        return value

    function.__annotations__ = {"return": hint}
    app.add_tool(function)
    app.add_tool(function, "text", structured_output=False)
    app.add_resource("data://value", function)
    app.add_tool(function, "declared", output_schema={"type": ["object", "array"]}, structured_output=None)
    async with connect(app) as client:
        await client.list_tools()
        result = await client.call_tool("function", {})  # The client validates it with the schema.
        assert not result.is_error and result.structured_content == expected
        text = (await client.call_tool("text", {})).content[0].text  # pyright: ignore
        read = (await client.read_resource("data://value")).contents[0].text  # pyright: ignore
    for written in (text, read):
        assert "my_name" in written and ("myName" in written) is ("wholeSum" in written)


async def test_the_schema_of_an_argument_has_the_names_that_are_read() -> None:
    app = App("names")

    @app.tool
    def read(value: ByName, other: Aliased) -> int:
        return value.my_name + other.my_name

    [tool] = await app.list_tools()
    definitions = tool.input_schema.to_dict()["$defs"]
    assert [*definitions["ByName"]["properties"]] == ["my_name"]
    assert [*definitions["Aliased"]["properties"]] == ["myName", "innerValue", "hidden"]
    result = await app.call_tool("read", {"value": {"my_name": 1}, "other": {"myName": 2}})
    assert result.structured_content == {"result": 3}


@dataclasses.dataclass
class Holder:
    parts: list[Any]


class Options(TypedDict):
    inner: Any


# Values without a form in JSON, and the place and the reason that the error names.
UNWRITABLE: dict[str, tuple[Any, str]] = {
    "object": (Plain(), "a value of the type 'Plain' has no form in JSON"),
    "in a dict": ({"a": {"b": Plain()}}, "a.b: a value of the type 'Plain'"),
    "in a list": ({"a": [1, Plain()]}, "a[1]: a value of the type 'Plain'"),
    "in a dataclass": (Holder([{"c": Plain()}]), "parts[0].c: a value of the type 'Plain'"),
    "bytes": (b"\xff\x00", "return File(data=…)"),
    "memoryview": (memoryview(b"\xff\x00"), "return File(data=…)"),
    "memoryview in a list": ([b"a", memoryview(b"a\xff")], "bytes that are not UTF-8 text (byte 1)"),
    "bytes in a dict": ({"a": b"a\xff"}, "a: bytes that are not UTF-8 text (byte 1)"),
    "bytes in a dataclass": (Holder([b"\xff"]), "parts[0]: bytes that are not UTF-8 text"),
    "exception": (ValueError("x"), "a value of the type 'ValueError'"),
    "function": (len, "has no form in JSON"),
    "number": ({"a": [float("nan")]}, "a[0]: JSON has no number NaN"),
}


@pytest.mark.parametrize("hint", [None, Any, dict[str, Any], object])
@pytest.mark.parametrize("name", UNWRITABLE)
async def test_a_value_without_a_form_in_json_is_an_error_that_names_it(name: str, hint: Any) -> None:
    value, reason = UNWRITABLE[name]
    app = App("unwritable")

    def function() -> Any:
        return value

    if hint is None:
        del function.__annotations__["return"]
    elif hint is dict[str, Any] and not isinstance(value, dict):
        pytest.skip("the value is not a dict")
    else:
        function.__annotations__ = {"return": hint}
    app.add_tool(function)
    result = await app.call_tool("function", {})
    assert result.is_error and reason in result.content[0].text  # pyright: ignore
    assert " at 0x" not in result.content[0].text  # pyright: ignore


@pytest.mark.parametrize("name", [name for name in UNWRITABLE if name not in ("bytes", "memoryview")])
async def test_prompts_and_resources_name_it_too(name: str) -> None:
    value, reason = UNWRITABLE[name]
    app = App("unwritable")

    @app.prompt
    def ask() -> Any:
        return UserMessage(value)

    @app.resource("data://value")
    def data() -> Any:
        return value

    async with connect(app) as client:
        with pytest.raises(Exception, match=re.escape(reason)):
            await client.get_prompt("ask")
        with pytest.raises(Exception, match=re.escape(reason)):
            await client.read_resource("data://value")


async def test_attributes_with_type_hints_and_files_are_sent() -> None:
    class Hinted:
        x: int

        def __init__(self) -> None:
            self.x = 1

    app = App("sent")

    @app.tool
    def nested() -> dict[str, Any]:
        return {"a": Hinted(), "b": fractions.Fraction(1, 2)}

    @app.tool
    def binary() -> File:
        return File(data=b"\xff", name="a.bin")

    assert (await app.call_tool("nested", {})).structured_content == {"a": {"x": 1}, "b": "1/2"}
    assert (await app.call_tool("binary", {})).content[0].type == "resource"


def backwards(data: bytes) -> memoryview:
    """A view that is not in one piece."""
    return memoryview(data[::-1])[::-1]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, backwards])
async def test_binary_data_is_written_as_its_bytes_whatever_its_type(kind: Callable[[bytes], Any]) -> None:
    app = App("binary")

    @app.tool
    def text() -> Any:
        return {"a": kind(b"hello"), "b": [kind(b"x")]}

    @app.tool
    def file() -> list[File | Image]:
        return [File(data=kind(b"\xff\x00"), name="x.bin"), Image(data=kind(b"\xff\x01"))]

    @app.resource("data://value")
    def data() -> Any:
        return kind(b"\xff\x02")

    async with connect(app) as client:
        written: Any = (await client.call_tool("text")).content[0]
        assert json.loads(written.text) == {"a": "hello", "b": ["x"]}
        sent: Any = (await client.call_tool("file")).content
        assert [base64.b64decode(part) for part in (sent[0].resource.blob, sent[1].data)] == [b"\xff\x00", b"\xff\x01"]
        read: Any = (await client.read_resource("data://value")).contents[0]
        assert (read.mime_type, base64.b64decode(read.blob)) == ("application/octet-stream", b"\xff\x02")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_declared_binary_data_has_structured_content_and_its_mime_type(kind: Any) -> None:
    app = App("binary")

    def tool() -> Any:
        return kind(b"hello")

    def resource() -> Any:
        return kind(b"hello")

    tool.__annotations__["return"] = Annotated[kind, "the data"]
    resource.__annotations__["return"] = kind
    app.add_tool(tool)
    app.resource("data://value")(resource)
    async with connect(app) as client:
        (listed,) = (await client.list_tools()).tools
        assert listed.output_schema is not None
        schema: Any = listed.output_schema.to_dict()["properties"]["result"]
        assert (schema["type"], schema["description"]) == ("string", "the data")
        assert (await client.call_tool("tool")).structured_content == {"result": "hello"}
        assert (await client.list_resources()).resources[0].mime_type == "application/octet-stream"


def deep() -> list[Any]:
    levels: list[Any] = []
    for _ in range(100_000):
        levels = [levels]
    return levels


def circle() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


WITHOUT_A_FORM: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (lambda: lambda: 1, "a value of the type 'function'"),
    "module": (lambda: json, "a value of the type 'module'"),
    "circle": (circle, "it contains itself, or has too many levels"),
    "circle in a dict": (lambda: {"content": circle()}, "it contains itself, or has too many levels"),
    "deep": (deep, "it contains itself, or has too many levels"),
}


@pytest.mark.parametrize("name", WITHOUT_A_FORM)
async def test_functions_modules_and_circles_are_named_wherever_they_are_returned(name: str) -> None:
    make, reason = WITHOUT_A_FORM[name]
    app = App("unwritable")
    app.add_tool(lambda: make(), "tool")
    app.add_prompt(lambda: make(), "prompt")
    app.resource("data://value", name="resource")(lambda: make())
    async with connect(app) as client:
        result = await app.call_tool("tool", {})
        assert result.is_error and reason in result.content[0].text  # pyright: ignore
        with pytest.raises(RemoteJSONRPCError, match=reason):
            await client.get_prompt("prompt")
        with pytest.raises(RemoteJSONRPCError, match=reason):
            await client.read_resource("data://value")


async def test_a_prompt_that_returns_a_dict_without_content_says_so() -> None:
    app = App("unwritable")
    app.add_prompt(lambda: {"text": "x"}, "prompt")
    async with connect(app) as client:
        with pytest.raises(
            RemoteJSONRPCError, match="'prompt' returned a dict without 'content': use {'role', 'content'}"
        ):
            await client.get_prompt("prompt")


@pytest.mark.parametrize("content", ["x", {"type": "text", "text": "x"}, ["x"]])
async def test_a_prompt_with_a_role_that_does_not_exist_says_so(content: Any) -> None:
    app = App("unwritable")
    app.add_prompt(lambda: [{"role": "system", "content": content}], "prompt")
    async with connect(app) as client:
        with pytest.raises(
            RemoteJSONRPCError, match="'prompt' returned .*: role: Input should be 'user' or 'assistant'"
        ):
            await client.get_prompt("prompt")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([object()], "object"),
        ([["a"]], "list"),
        (["a", None], "NoneType"),
        (1, "int"),
        ("text", "str"),
        (b"a", "bytes"),
        ({"values": ["a"]}, "dict"),
    ],
)
async def test_a_completion_that_is_no_list_of_texts_is_an_error_that_names_its_type(value: Any, kind: str) -> None:
    app = App("unwritable")
    app.add_prompt(lambda topic: topic, "prompt")

    @app.completion
    async def complete(ref: Any, argument: Any) -> Any:
        return value

    async with connect(app) as client:
        with pytest.raises(
            RemoteJSONRPCError, match=f"a completion returned a value of the type '{kind}': return texts"
        ):
            await client.complete(t.PromptReference(name="prompt"), t.CompletionArgument(name="topic", value=""))


async def test_suggestions_may_be_numbers_and_paths() -> None:
    app = App("values")
    app.add_prompt(lambda topic: topic, "prompt")

    @app.completion
    async def complete(ref: Any, argument: Any) -> Any:
        return (value for value in (1, 2.5, pathlib.PurePosixPath("a/b"), uuid.UUID(int=1), decimal.Decimal("0.5")))

    async with connect(app) as client:
        reference, argument = t.PromptReference(name="prompt"), t.CompletionArgument(name="topic", value="")
        values = (await client.complete(reference, argument)).completion.values
    assert values == ["1", "2.5", "a/b", str(uuid.UUID(int=1)), "0.5"]
