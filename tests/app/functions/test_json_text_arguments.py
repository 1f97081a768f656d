"""Arguments as JSON text: only the argument whose type needs it is parsed, and no other one is changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, Json, SecretStr
from support.clients import connect

from mcp_generated import App, Message, RemoteJSONRPCError


class Person(BaseModel):
    name: str


@dataclass
class Point:
    x: int


class Pair(NamedTuple):
    a: int
    b: int


class Options(TypedDict):
    deep: bool


class Colour(StrEnum):
    RED = "red"


def _small(value: str) -> str:
    assert len(value) < 3, "too long"
    return value


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("no text here")
    return value


async def shown(tool: str, arguments: dict[str, Any], function: Any, **settings: Any) -> str:
    app = App("text")
    app.add_tool(function, tool, **settings)
    async with connect(app) as client:
        result = await client.call_tool(tool, arguments)
    return str([block.text for block in result.content])


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (Literal[1, 2], "1", "1"),
        (Level, "1", "<Level.LOW: 1>"),
        (Literal[True], "true", "True"),
        (Literal[1, "a"], "a", "'a'"),
        (Literal["1"], "1", "'1'"),
        (list[Level] | None, "[1]", "[<Level.LOW: 1>]"),
        (int | str, "1", "'1'"),
        (Any, "1", "'1'"),
    ],
)
async def test_arguments_that_are_texts_are_read_as_numbers_where_a_type_takes_no_text(
    hint: Any, text: str, expected: str
) -> None:
    def show(x: Any) -> str:
        return repr(x)

    show.__annotations__["x"] = hint
    app = App("numbers")
    app.prompt("show")(show)
    app.add_tool(show, "show", coerce=True)
    async with connect(app) as client:
        assert (await client.get_prompt("show", {"x": text})).messages[0].content.text == expected
        assert (await client.call_tool("show", {"x": text})).content[0].text == expected
        with pytest.raises(RemoteJSONRPCError, match="invalid arguments"):
            await client.get_prompt("show", {"y": text})


# What stands beside an argument that needs JSON, and what the function gets of it.
BESIDE: dict[str, tuple[Any, Any, Any]] = {
    "text": (str, "[2]", "[2]"),
    "object text": (str, '{"a": 1}', '{"a": 1}'),
    "null text": (str, "null", "null"),
    "optional text": (str | None, "null", "null"),
    "text or list": (str | list[int], "[2]", "[2]"),
    "list or text": (list[int] | str, "[2]", "[2]"),
    "described text": (Annotated[str, Field(description="a")], "[2]", "[2]"),
    "any": (Any, "[2]", "[2]"),
    "any float": (Any, 5.0, 5.0),
    "float in any": (dict[str, Any], {"a": 5.0}, {"a": 5.0}),
    "number": (int | float, 5.0, 5.0),
    "literal": (Literal["[2]", "b"], "[2]", "[2]"),
    "text or date": (date | str, "2026-01-01", "2026-01-01"),
    "texts": (list[str], ["[2]"], ["[2]"]),
    "text in a model": (Person, {"name": "[2]"}, Person(name="[2]")),
    "text in an object": (dict[str, str], {"a": "[2]"}, {"a": "[2]"}),
    "text in a typed dict": (dict[str, Options], {"a": {"deep": True}}, {"a": {"deep": True}}),
}


@pytest.mark.parametrize("coerce", [False, True])
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("name", BESIDE)
async def test_what_stands_beside_json_text_stays_as_it_is(name: str, text: bool, coerce: bool) -> None:
    hint, value, expected = BESIDE[name]
    seen: list[Any] = []

    def function(ids: Any, beside: Any) -> None:
        seen.append((ids, beside, type(beside)))

    function.__annotations__ = {"ids": list[int], "beside": hint}
    answer = await shown("f", {"ids": "[1]" if text else [1.0], "beside": value}, function, coerce=coerce)
    assert seen == [([1], expected, type(expected))], answer


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (list[int], "[1]", [1]),
        (list[int] | None, "null", None),
        (list[int] | None, "[1]", [1]),
        (Annotated[list[int], Field(description="a")], " [1.0]", [1]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Person, '{"name": "a"}', Person(name="a")),
        (Point, '{"x": 1}', Point(1)),
        (Pair, "[1, 2]", Pair(1, 2)),
        (Options, '{"deep": true}', {"deep": True}),
        (list[date], '["2026-01-01"]', [date(2026, 1, 1)]),
        (date | list[date], '["2026-01-01"]', [date(2026, 1, 1)]),
        (date | None, "null", None),
        (int | None, "null", None),
        (list[Person], '[{"name": "[2]"}]', [Person(name="[2]")]),
        (Annotated[list[int], BeforeValidator(_listed)], "[1]", [1]),
        (Literal["a"] | list[int], "[1]", [1]),
        (Colour | list[int], "[1]", [1]),
        (Json[list[int]], "[1]", [1]),
        (set[int], "[1, 1]", {1}),
    ],
)
async def test_an_argument_whose_type_needs_json_is_parsed(hint: Any, text: str, expected: Any) -> None:
    seen: list[Any] = []

    def function(value: Any, note: str = "[3]") -> None:
        seen.append((value, note))

    function.__annotations__ = {"value": hint, "note": str}
    answer = await shown("f", {"value": text}, function)
    assert seen == [(expected, "[3]")], answer


@pytest.mark.parametrize(
    ("hint", "text", "reason"),
    [
        (Annotated[str, Field(max_length=2)], "[1]", "at most 2 characters"),
        (Annotated[str, Field(max_length=2)] | None, "null", "at most 2 characters"),
        (Annotated[str, AfterValidator(_small)], "[1, 2]", "too long"),
        (Annotated[str, Field(pattern="^a")], "[1]", "should match pattern"),
        (Annotated[str, Field(max_length=2)] | list[int], "[1]", "at most 2 characters"),
        (Annotated[SecretStr, Field(max_length=2)] | None, "null", "at most 2 items"),
        (int, "[1]", "valid integer"),
        (list[int], '["a"]', "value.0: Input should be a valid integer"),
        (list[int], "[1", "valid array"),
        (list[float], "[NaN]", "valid array"),
    ],
)
async def test_text_that_is_refused_as_text_is_not_read_as_json(hint: Any, text: str, reason: str) -> None:
    def function(value: Any, ids: list[int]) -> None: ...

    function.__annotations__ = {"value": hint, "ids": list[int]}
    answer = await shown("f", {"value": text, "ids": "[1]"}, function)
    assert reason in answer and "ids" not in answer


async def test_a_prompt_parses_only_the_argument_that_needs_json() -> None:
    app = App("text")

    @app.prompt
    def sum_up(ids: list[int], text: str, maybe: str | None = None) -> Message:
        return Message(repr((ids, text, maybe)))

    async with connect(app) as client:
        result = await client.get_prompt("sum_up", {"ids": "[1]", "text": "[2]", "maybe": "null"})
    assert result.messages[0].content.text == "([1], '[2]', 'null')"  # pyright: ignore


async def test_a_resource_parses_only_the_variable_that_needs_json() -> None:
    app = App("text")

    @app.resource("data://{options}/{text}")
    def data(options: dict[str, int], text: str) -> str:
        return repr((options, text))

    async with connect(app) as client:
        result = await client.read_resource("data://%7B%22a%22%3A1%7D/%5B2%5D")
    assert result.contents[0].text == "({'a': 1}, '[2]')"  # pyright: ignore
