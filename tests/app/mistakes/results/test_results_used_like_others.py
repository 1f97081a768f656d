"""Results that are used like those of other packages, or like lists: the error names what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import REVISIONS, App

app = App("shop")


@app.tool()
def add(a: int, b: int) -> int:
    return a + b


@app.resource("shop://stock")
def stock() -> str:
    return "tea"


@app.resource("shop://stock/{item}")
def amount(item: str) -> str:
    return "3"


@app.prompt()
def recommend() -> str:
    return "Recommend a tea."


@pytest.mark.parametrize("name", ["tools", "resources", "resource_templates", "prompts"])
async def test_a_list_of_one_page_is_no_list_and_the_error_names_its_attribute_and_the_iterator(name: str) -> None:
    async with connect(app) as client:
        result = await getattr(client, f"list_{name}")()
        for use in (list, dict, lambda page: [item.name for item in page]):
            with pytest.raises(TypeError, match=rf"its attribute '{name}', or with `async for` over iter_{name}\(\)"):
                use(result)
        with pytest.raises(TypeError, match=f"has attributes, not items: its attribute '{name}' is a list"):
            result[0]
        assert [item async for item in getattr(client, f"iter_{name}")()] == getattr(result, name)
        assert bool(result)


MISUSES: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda result: result.data, AttributeError, r"structured_content has the value"),
    (lambda result: result.text, AttributeError, r"content\[0\]\.text"),
    (lambda result: result["content"], TypeError, r"write \.content"),
    (lambda result: result["structuredContent"], TypeError, r"write \.structured_content"),
    (lambda result: result["sum"], TypeError, r"to_dict\(\) has its JSON"),
    (lambda result: result[0], TypeError, r"its attribute 'content' is a list"),
    (lambda result: result.content[0]["text"], TypeError, r"write \.text"),
]


@pytest.mark.parametrize(("use", "kind", "remedy"), MISUSES)
async def test_a_result_of_a_call_that_is_used_otherwise_names_what_to_write(
    use: Callable[[Any], Any], kind: type[Exception], remedy: str
) -> None:
    async with connect(app) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    with pytest.raises(kind, match=remedy) as raised:
        use(result)
    assert len(str(raised.value)) < 200


def test_the_names_hold_in_every_version(revision: str) -> None:
    types = import_module(f"mcp_generated.{REVISIONS[revision]}").types
    result = types.CallToolResult(content=[types.TextContent(text="3")])
    for name in ("data", "text"):
        with pytest.raises(AttributeError, match=f"CallToolResult has no attribute '{name}': "):
            getattr(result, name)
    with pytest.raises(AttributeError, match="object has no attribute 'sum'"):
        result.sum
    assert dict(result)["content"] == result.content, "other models are iterated as those of pydantic"
    with pytest.raises(TypeError, match="'tools'"):
        list(types.ListToolsResult(tools=[]))
