"""Lists and results of servers of FastMCP have what the distribution `fastmcp` puts into them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

from mcp_generated.compat import (
    Context,
    StandaloneFastMCP,
    create_connected_server_and_client_session,
    get_context,
    get_http_request,
    sdk_version,
)
from mcp_products.compat.standalone.components import Tool
from mcp_runtime.errors import LocalError


async def listed(server: Any) -> dict[str, Any]:
    async with create_connected_server_and_client_session(server) as session:
        tools = (await session.list_tools()).tools
    return {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in tools}


TAGGED = {"more": 2, "tags": ["a", "b"], "version": "3", "versions": ["3"]}


async def test_the_tags_of_a_tool_stand_in_its_metadata() -> None:
    server = StandaloneFastMCP("shop")

    @server.tool
    def plain() -> None: ...

    @server.tool(tags={"b", "a"}, meta={"own": 1, "fastmcp": {"more": 2}}, version="3")
    def tagged() -> None: ...

    tools = await listed(server)
    assert tools["plain"]["_meta"] == {"fastmcp": {"tags": []}}
    assert tools["tagged"]["_meta"] == {"own": 1, "fastmcp": TAGGED}


async def test_the_tags_of_resources_and_prompts_stand_in_their_metadata_and_not_in_contents() -> None:
    server = StandaloneFastMCP("shop")

    @server.prompt
    def plain() -> str:
        return ""

    @server.prompt(tags={"b", "a"}, meta={"own": 1})
    def tagged() -> str:
        return ""

    @server.resource("shop://tea", tags={"b"}, meta={"own": 1})
    def tea() -> str:
        return "tea"

    @server.resource("shop://{kind}/price", tags={"b"})
    def price(kind: str) -> str:
        return kind

    async with create_connected_server_and_client_session(server) as session:
        prompts = (await session.list_prompts()).prompts
        resources = [*(await session.list_resources()).resources]
        templates = [*(await session.list_resource_templates()).resource_templates]
        contents = [(await session.read_resource(uri)).contents[0] for uri in ("shop://tea", "shop://tea/price")]
    assert [dict(item.meta) for item in (*prompts, *resources, *templates)] == [
        {"fastmcp": {"tags": []}},
        {"own": 1, "fastmcp": {"tags": ["a", "b"]}},
        {"own": 1, "fastmcp": {"tags": ["b"]}},
        {"fastmcp": {"tags": ["b"]}},
    ]
    assert [content.meta for content in contents] == [{"own": 1}, None]


async def test_a_result_that_is_wrapped_says_so() -> None:
    server = StandaloneFastMCP("shop")

    @server.tool
    def count() -> int:
        return 1

    @server.tool
    def names() -> list[str]:
        return ["tea"]

    @server.tool
    def item() -> dict[str, int]:
        return {"tea": 1}

    @server.tool
    def wrong() -> int:
        raise ValueError("no")

    async with create_connected_server_and_client_session(server) as session:
        results = {name: await session.call_tool(name, {}) for name in ("count", "names", "item", "wrong")}
    assert {name: result.meta for name, result in results.items()} == {
        "count": {"fastmcp": {"wrap_result": True}},
        "names": {"fastmcp": {"wrap_result": True}},
        "item": None,
        "wrong": None,
    }


TEXTS = {
    "google": ("Sell.\n\nMore.\n\nArgs:\n    item: What.\n\nExtra.\n", "Sell.\n\nMore."),
    "a note": ("Sell.\n\nNotes:\n    Cold.\n\nArgs:\n    item: What.\n", "Sell."),
    "a heading of the author": ("Sell.\n\nRules:\n    Cold.\n\nArgs:\n    item: What.\n", "Sell."),
    "headings of the author alone": ("Sell.\n\nRules:\n    Cold.\n", "Sell.\n\nRules:\n    Cold."),
    "no empty line above": ("Sell.\nArgs:\n    item: What.\n", "Sell.\nArgs:\n    item: What."),
    "a block of code": ("Sell.\n\n```\n\nNotes:\n    x\n```\n", "Sell.\n\n```\n\nNotes:\n    x\n```"),
    "numpy": ("Sell.\n\nParameters\n----------\nitem : str\n    What.\n\nNotes\n-----\nCold.\n", "Sell."),
    "sphinx": ("Sell.\n\n:param item: What.\n:returns: A price.\n", "Sell."),
    "one line": ("Sell.", "Sell."),
}


@pytest.mark.parametrize("case", TEXTS)
async def test_the_description_is_what_stands_before_the_first_section(case: str) -> None:
    def sell(item: str) -> None: ...

    description, expected = TEXTS[case]
    sell.__doc__ = description
    server = StandaloneFastMCP("shop")
    server.tool(sell)
    server.tool(sell, name="own", description="Of its own.")
    tools = await listed(server)
    assert (tools["sell"]["description"], tools["own"]["description"]) == (expected, "Of its own.")


async def test_a_tool_that_a_program_makes_is_that_of_the_decorator() -> None:
    def price(item: str, count: int = 1) -> float:
        """Return a price.

        Args:
            item: What is sold.
        """
        return 1.5 * count

    server = StandaloneFastMCP("shop")
    server.add_tool(Tool.from_function(price, tags={"a"}))
    server.add_tool(Tool.from_function(price, name="other", description="Other."))
    server.tool(price, name="same", tags={"a"})
    tools = await listed(server)
    titles = [tool.pop("title") for tool in tools.values()]
    names = [tool.pop("name") for tool in tools.values()]
    assert (names, titles) == (["price", "other", "same"], ["Price", "Other", "Same"])
    assert tools["price"] == tools["same"]
    assert tools["other"]["description"] == "Other."
    async with create_connected_server_and_client_session(server) as session:
        result = await session.call_tool("price", {"item": "tea", "count": 2})
    assert result.structured_content == {"result": 3.0}


async def test_an_error_of_arguments_names_the_function() -> None:
    def count_async(number: int) -> int:
        return number

    server = StandaloneFastMCP("shop")
    server.tool(count_async, name="count")
    async with create_connected_server_and_client_session(server) as session:
        result = await session.call_tool("count", {})
    assert result.content[0].text.startswith("1 validation error for call[count_async]\nnumber\n")


def test_the_version_of_an_sdk_is_the_release_whose_names_are_here() -> None:
    assert sdk_version("fastmcp").startswith("4.") and sdk_version("mcp").startswith("2.")
    assert sdk_version("fastmcp-slim") == sdk_version("fastmcp") and sdk_version("mcp-types") == sdk_version("mcp")
    assert sdk_version("pydantic") == version("pydantic")
    with pytest.raises(PackageNotFoundError):
        sdk_version("no-such-distribution")


@pytest.mark.parametrize("find", [get_context, get_http_request])
def test_there_is_no_request_outside_of_one_by_the_errors_of_both(find: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"get_\w+\(\): ") as caught:
        find()
    assert isinstance(caught.value, LocalError) and str(caught.value).count("see ") == 0


async def test_the_context_of_a_request_is_that_of_its_function() -> None:
    server = StandaloneFastMCP("shop")

    @server.tool
    def same(ctx: Context) -> bool:
        return get_context().request_id == ctx.request_id

    async with create_connected_server_and_client_session(server) as session:
        assert (await session.call_tool("same", {})).structured_content == {"result": True}
