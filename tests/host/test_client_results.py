"""Results of `Client`: values of Python, errors, and lists of what a server has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import AnyUrl, BaseModel
from support.endpoints import ALL_REVISIONS, Rev, among, before, since

from mcp_generated import (
    App,
    Client,
    ConnectionClosedError,
    InvalidResponseError,
    LocalError,
    ToolOutput,
    ToolResultError,
)

STRUCTURED = since("2025-06-18")


class City(BaseModel):
    name: str
    people: int = 0


@dataclass
class Place:
    name: str
    people: int


def served() -> App:
    app = App("served")

    @app.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @app.tool()
    def names() -> list[str]:
        """Return two names."""
        return ["Oslo", "Rome"]

    @app.tool()
    def numbers(count: int = 2) -> list[int]:
        """Return some numbers."""
        return [*range(count)]

    @app.tool()
    def city(name: str) -> City:
        """Return a city."""
        return City(name=name, people=7)

    @app.tool()
    def nothing() -> None:
        """Return nothing."""

    @app.tool(structured_output=False)
    def plain() -> str:
        """Return a text alone."""
        return "a text"

    @app.tool()
    def broken() -> int:
        """Fail."""
        raise ValueError("secret")

    return app


@among(STRUCTURED)
async def test_data_is_what_the_tool_returned(rev: Rev) -> None:
    async with Client(served(), revisions=rev.id) as client:
        output = await client.call_tool("add", {"a": 1, "b": 2})
        assert (output.data, output.text, output.structured_content, output.is_error) == (3, "3", {"result": 3}, False)
        assert isinstance(output, ToolOutput)
        assert (await client.call_tool("names")).data == ["Oslo", "Rome"]
        city = (await client.call_tool("city", {"name": "Oslo"})).data
        assert (city.name, city["people"], city.to_dict()) == ("Oslo", 7, {"name": "Oslo", "people": 7})
        assert (await client.call_tool("city", City(name="Rome"), raise_on_error=False)).is_error is True
        plain = await client.call_tool("plain")
        assert (plain.data, plain.text, plain.structured_content) == (None, "a text", None)
        assert (await client.call_tool("nothing")).data is None


@among(before("2025-06-18"))
async def test_data_is_absent_where_there_is_no_structured_content(rev: Rev) -> None:
    async with Client(served(), revisions=rev.id) as client:
        output = await client.call_tool("add", {"a": 1, "b": 2})
        assert (output.data, output.text, output.structured_content) == (None, "3", None)


@among(ALL_REVISIONS)
async def test_data_has_the_type_of_output(rev: Rev) -> None:
    async with Client(served(), revisions=rev.id) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2}, output=int)).data == 3
        assert (await client.call_tool("city", {"name": "Oslo"}, output=City)).data == City(name="Oslo", people=7)
        assert (await client.call_tool("city", {"name": "Oslo"}, output=Place)).data == Place("Oslo", 7)
        assert (await client.call_tool("plain", output=str)).data == "a text"
        assert (await client.call_tool("numbers", output=list[int])).data == [0, 1]
        assert (await client.call_tool("numbers", {"count": 0}, output=list[int])).data == []
        assert (await client.call_tool("names", output=list[str])).data == ["Oslo", "Rome"]
        with pytest.raises(InvalidResponseError, match="'city' has not returned int"):
            await client.call_tool("city", {"name": "Oslo"}, output=int)
        with pytest.raises(InvalidResponseError, match=r"'names' has not returned list\[int\]"):
            await client.call_tool("names", output=list[int])
        maybe: Any = int | None
        assert (await client.call_tool("nothing", output=maybe)).data is None


async def test_what_is_no_type_and_what_has_no_form_in_json_are_refused_before_the_call() -> None:
    called: list[str] = []
    app = App("app")

    @app.tool()
    def note(text: str) -> None:
        called.append(text)

    async with Client(app) as client:
        calls: Any = client
        with pytest.raises(LocalError, match="output must be a type that pydantic reads"):
            await calls.call_tool("note", {"text": "x"}, output=5)
        with pytest.raises(LocalError, match="the arguments of 'note' cannot be written as JSON: .*object"):
            await client.call_tool("note", {"text": object()})
        with pytest.raises(LocalError, match="the arguments of 'note' cannot be written as JSON: .*utf-8"):
            await client.call_tool("note", {"text": b"\xff"})
        with pytest.raises(LocalError, match=r"get_tool\(\): name must be a string; None is not"):
            await calls.get_tool(None)
        with pytest.raises(LocalError, match=r"get_resource\(\): name must be a string; None is not"):
            await calls.get_resource(None)
        with pytest.raises(
            LocalError, match=r"options must be RequestOptions\(…\), .*timeout=5; {'timeout': 3} is not"
        ):
            await calls.call_tool("note", {"text": "x"}, options={"timeout": 3})
    assert called == []


@among(ALL_REVISIONS)
async def test_a_call_that_waits_while_its_client_is_closed_says_who_closed(rev: Rev) -> None:
    app, begun = App("app"), asyncio.Event()

    @app.tool()
    async def wait() -> None:
        """Wait for nothing."""
        begun.set()
        await asyncio.Event().wait()

    async with Client(app, revisions=rev.id) as client:
        call = asyncio.create_task(client.call_tool("wait"))
        await begun.wait()
    with pytest.raises(ConnectionClosedError, match="this side has closed the connection"):
        await call


async def test_a_model_with_the_property_of_the_wrapper_keeps_it() -> None:
    class Outcome(BaseModel):
        result: int

    async with Client(served()) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2}, output=Outcome)).data == Outcome(result=3)


@among(ALL_REVISIONS)
async def test_a_tool_that_fails_raises_its_text(rev: Rev) -> None:
    async with Client(served(), revisions=rev.id) as client:
        with pytest.raises(ToolResultError) as raised:
            await client.call_tool("broken")
        output = await client.call_tool("broken", raise_on_error=False, output=int)
        assert output.is_error is True
        assert str(raised.value) == output.text == "the tool 'broken' failed"
        assert output.structured_content is None


@among(ALL_REVISIONS)
async def test_a_list_that_a_server_does_not_have_is_empty(rev: Rev) -> None:
    async with Client(served(), revisions=rev.id) as client:
        assert await client.list_resources() == []
        assert await client.list_resource_templates() == []
        assert await client.list_prompts() == []
        assert [item async for item in client.iter_prompts()] == []
        assert len(await client.list_tools()) == 7


@among(ALL_REVISIONS)
async def test_a_list_has_all_pages(rev: Rev) -> None:
    app = App("many", page_size=2)
    for number in range(5):
        app.add_tool(lambda: None, name=f"tool{number}", description="Do nothing.")
    app.add_resource("text://one", lambda: "1", name="one")
    app.add_resource("text://{name}", lambda name: name, name="any")

    @app.prompt()
    def travel(city: str) -> str:
        """Go somewhere."""
        return f"Go to {city}."

    async with Client(app, revisions=rev.id) as client:
        assert [tool.name for tool in await client.list_tools()] == [f"tool{number}" for number in range(5)]
        assert [tool.name async for tool in client.iter_tools()] == [f"tool{number}" for number in range(5)]
        assert [resource.name for resource in await client.list_resources()] == ["one"]
        assert [template.name for template in await client.list_resource_templates()] == ["any"]
        prompt: Any = (await client.get_prompt("travel", {"city": "Oslo"})).messages[0].content
        assert prompt.text == "Go to Oslo."
        address: Any = AnyUrl("text://one")
        for uri in ("text://one", address):
            contents: Any = (await client.read_resource(uri)).contents[0]
            assert contents.text == "1"
        named: Any = (await client.get_resource("any", {"name": "x"})).contents[0]
        assert named.text == "x"


async def test_a_wrong_keyword_of_a_call_names_the_right_one() -> None:
    async with Client(served()) as client:
        calls: Any = client
        with pytest.raises(TypeError, match="'on_progress'"):
            await calls.call_tool("add", {"a": 1, "b": 2}, progress_callback=print)
        with pytest.raises(TypeError, match="'timeout'"):
            await calls.call_tool("add", {"a": 1, "b": 2}, read_timeout_seconds=5)
        with pytest.raises(TypeError, match="did you mean 'raise_on_error'"):
            await calls.call_tool("add", {"a": 1, "b": 2}, raise_error=False)
        with pytest.raises(TypeError, match=r"list_tools\(\) has no keyword argument 'cursor'"):
            await calls.list_tools(cursor="x")
