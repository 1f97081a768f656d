"""What clients are told by servers that were moved here, where their own tests compare it with the original."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Dict  # noqa: UP035 - the spelling is what is tested
from unittest import mock

import anyio
import pytest

from mcp_generated import compat, connect
from mcp_generated.compat import (
    Client,
    FastMCP,
    MCPServer,
    Server,
    StandaloneFastMCP,
    ToolError,
    create_connected_server_and_client_session,
    returned_values,
    types,
)
from mcp_generated.v2026_07_28.types import CallToolResult
from mcp_products.compat.streams.message import SessionMessage, create_client_server_memory_streams

OFFICIAL = [FastMCP, MCPServer]
HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
UNCHANGING = {
    "prompts": {"listChanged": False},
    "resources": {"subscribe": False, "listChanged": False},
    "tools": {"listChanged": False},
}


def documented(item: str) -> str:
    """Look something up.

    Args:
        item: What to look for.
    """
    return item


@pytest.mark.parametrize("kind", OFFICIAL)
async def test_the_description_of_an_official_tool_is_its_whole_docstring(kind: Any) -> None:
    server = kind("shop")
    server.tool()(documented)
    server.tool(name="other", description="Another one.")(documented)
    async with connect(server) as client:
        tools = await client.list_tools()
    assert [tool.description for tool in tools] == [documented.__doc__, "Another one."]
    assert "description" not in tools[0].to_dict()["inputSchema"]["properties"]["item"]


async def test_an_object_of_fastmcp_is_one_in_each_spelling() -> None:
    server = StandaloneFastMCP("shop")

    @server.tool
    def old() -> Dict[str, int]:  # noqa: UP006 - the spelling is what is tested
        return {"a": 1}

    @server.tool(annotations={"title": "As It Is"})
    def bare() -> dict:  # type: ignore[type-arg]
        return {"a": 1}

    async with connect(server) as client:
        tools = {tool.name: tool.to_dict() for tool in await client.list_tools()}
        results = [await client.call_tool(name) for name in tools]
    assert [result.structured_content for result in results] == [{"a": 1}, {"a": 1}]
    assert tools["old"]["outputSchema"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert tools["bare"]["outputSchema"] == {"type": "object", "additionalProperties": True}
    assert [tool["title"] for tool in tools.values()] == ["Old", "As It Is"]


@pytest.mark.parametrize("kind", OFFICIAL)
async def test_an_old_dict_of_the_official_sdk_is_wrapped_in_schema_and_result(kind: Any) -> None:
    server = kind("shop")

    @server.tool()
    def old() -> Dict[str, int]:  # noqa: UP006 - the spelling is what is tested
        return {"a": 1}

    async with connect(server) as client:
        [tool] = await client.list_tools()
        result = await client.call_tool("old")
    assert tool.to_dict()["outputSchema"]["required"] == ["result"]
    assert result.structured_content == {"result": {"a": 1}}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_without_subscriptions_declares_that_nothing_changes_and_still_logs(mode: str) -> None:
    server = MCPServer("shop", subscriptions=False)
    seen: list[Any] = []

    @server.tool()
    async def work(ctx: compat.Context) -> str:
        await ctx.info("working")
        return "done"

    async def log(params: Any) -> None:
        seen.append(params.data)

    async with Client(server, mode=mode, logging_callback=log, log_level="info") as client:
        declared = client.server_capabilities.model_dump(by_alias=True, exclude_none=True)
        result = await client.call_tool("work")
    assert (declared, result.is_error, seen) == (UNCHANGING, False, ["working"])


def low_level() -> Server[Any, Any]:
    server: Server[Any, Any] = Server("shop")
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}

    @server.list_tools()
    async def tools() -> list[types.Tool]:
        return [types.Tool(name="price", input_schema=schema)]

    @server.call_tool()
    async def call(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        return [types.TextContent(type="text", text="1.5")]

    return server


@pytest.mark.parametrize("version", HANDSHAKES)
async def test_a_result_of_the_low_level_has_no_key_of_a_newer_version(version: str) -> None:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "price", "arguments": {"item": "tea"}}
    answers: list[dict[str, Any]] = []
    async with (
        create_client_server_memory_streams() as ((read, write), (server_read, server_write)),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(low_level().run, server_read, server_write)
        initialized = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
        for number, (method, params) in enumerate([("initialize", hello), ("tools/call", call)]):
            request = types.JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await write.send(SessionMessage(request))
            answer: Any = await read.receive()
            answers.append(json.loads(answer.message.model_dump_json(by_alias=True, exclude_none=True)))
            await write.send(SessionMessage(initialized))
        tasks.cancel_scope.cancel()
    assert answers[1]["result"] == {"content": [{"type": "text", "text": "1.5"}], "isError": False}


async def test_an_error_of_arguments_of_the_low_level_quotes_as_the_original() -> None:
    async with create_connected_server_and_client_session(low_level()) as session:
        results = [await session.call_tool("price", arguments) for arguments in ({}, {"item": 1})]
    texts = [result.content[0].text for result in results]
    assert texts == [
        "Input validation error: 'item' is a required property",
        "Input validation error: item: 1 is not of type 'string'",
    ]


async def test_a_server_whose_stdio_a_test_replaces_is_run_by_the_low_level_server() -> None:
    """As tests of programs do, which look at how the loop of the server is started."""

    @asynccontextmanager
    async def streams() -> AsyncGenerator[Any]:
        yield mock.sentinel.read, mock.sentinel.write

    with (
        mock.patch("mcp_generated.compat.stdio_server", streams),
        mock.patch.object(Server, "run", new_callable=mock.AsyncMock) as run,
    ):
        await MCPServer("shop").run_stdio_async()
    run.assert_awaited_once()
    assert run.call_args.kwargs.get("raise_exceptions") is not True


@pytest.mark.parametrize("kind", OFFICIAL)
async def test_returned_values_are_those_of_1_x(kind: Any) -> None:
    server = kind("shop")

    @server.tool()
    def double(value: int) -> int:
        return 2 * value

    @server.tool(structured_output=False)
    def text(value: int) -> int:
        return value

    content, structured = returned_values(await server.call_tool("double", {"value": 2}))
    assert (content[0].text, structured) == ("4", {"result": 4})
    assert [block.text for block in returned_values(await server.call_tool("text", {"value": 2}))] == ["2"]
    with pytest.raises(ToolError, match="1 validation error for doubleArguments"):
        returned_values(await server.call_tool("double", {}))


@pytest.mark.parametrize("name", ["resultType", "result_type"])
def test_a_default_is_given_by_either_name(name: str) -> None:
    result = CallToolResult.model_validate({"content": [], "resultType": "complete"})
    given: Any = {"content": [], name: "complete"}
    assert CallToolResult(**given).to_dict() == result.to_dict()
    assert "result_type" in CallToolResult(**given).model_fields_set
    assert "result_type" not in CallToolResult(content=[]).model_fields_set
