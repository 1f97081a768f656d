"""What a program of the official SDK relies on, by the rows of the table in docs/migration.md."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel

from mcp_generated.compat import (
    Client,
    Context,
    FastMCP,
    FunctionResource,
    MCPError,
    McpError,
    MCPServer,
    Server,
    get_display_name,
    types,
)

MODES = ("legacy", "auto")
both_modes = pytest.mark.parametrize("mode", MODES)
both_servers = pytest.mark.parametrize("server", [FastMCP, MCPServer])


@both_modes
async def test_the_message_handler_gets_the_notification(mode: str) -> None:
    mcp = MCPServer("shop")
    seen: list[Any] = []
    arrived = asyncio.Event()

    @mcp.tool()
    async def work(ctx: Context) -> str:
        await ctx.info("working")
        return "done"

    async def handle(message: Any) -> None:
        seen.append(message)
        arrived.set()

    async with Client(mcp, message_handler=handle, mode=mode, log_level="info") as client:
        await client.call_tool("work")
        await asyncio.wait_for(arrived.wait(), 10)
    assert isinstance(seen[0], types.LoggingMessageNotification)
    assert isinstance(seen[0], types.ServerNotification)


@both_modes
@pytest.mark.parametrize("caught", [McpError, MCPError])
async def test_errors_of_a_client_are_caught_by_both_names(mode: str, caught: Any) -> None:
    async with Client(Server("empty"), mode=mode) as client:
        for request in (client.list_prompts(), client.get_prompt("none"), client.read_resource("none://here")):
            with pytest.raises(caught) as raised:
                await request
            assert raised.value.error.code == types.METHOD_NOT_FOUND
    async with Client(MCPServer("shop"), mode=mode) as client:
        with pytest.raises(caught) as raised:
            await client.get_prompt("none")
        assert (raised.value.error.code, raised.value.error.message) == (types.INVALID_PARAMS, "Unknown prompt: none")
        result = await client.call_tool("none")
        assert (result.is_error, result.content[0].text) == (True, "Unknown tool: none")


async def test_the_error_that_a_roots_callback_returns_reaches_the_server() -> None:
    mcp = MCPServer("shop")

    @mcp.tool()
    async def folders(ctx: Context) -> str:
        try:
            await ctx.session.list_roots()
        except McpError as error:
            return f"{error.error.code} {error.error.message}"
        return "no error"

    async def refuse(context: Any) -> Any:
        return types.ErrorData(code=-32001, message="no roots")

    async with Client(mcp, list_roots_callback=refuse, mode="legacy") as client:
        assert (await client.call_tool("folders")).content[0].text == "-32001 no roots"
    with pytest.raises(ExceptionGroup) as raised:  # Without a handshake, the client refuses to go on.
        async with Client(mcp, list_roots_callback=refuse, mode="auto") as client:
            await client.call_tool("folders")
    [error] = raised.value.split(McpError)[0].exceptions[0].exceptions  # type: ignore[union-attr]
    assert isinstance(error, McpError) and error.error.code == -32001


async def test_an_mcp_server_hides_what_it_did_not_mean_to_show(caplog: pytest.LogCaptureFixture) -> None:
    def secret() -> str:
        raise ValueError("secret")

    shown: dict[Any, str] = {}
    for server in (MCPServer, FastMCP):
        mcp = server("shop")
        mcp.add_tool(secret)
        mcp.resource("shop://secret")(secret)
        mcp.prompt()(secret)
        async with Client(mcp) as client:
            shown[server] = (await client.call_tool("secret")).content[0].text
            with pytest.raises(McpError) as raised:
                await client.get_prompt("secret")
            assert "secret" not in raised.value.error.message
            with pytest.raises(McpError) as raised:
                await client.read_resource("shop://secret")
            suffix = ": secret" if server is FastMCP else ""
            assert raised.value.error.message == f"Error reading resource shop://secret{suffix}"
    assert shown == {MCPServer: "Error executing tool secret", FastMCP: "Error executing tool secret: secret"}
    assert "ValueError: secret" in caplog.text


@both_modes
async def test_a_low_level_server_is_a_target_and_success_is_no_error(mode: str) -> None:
    async def list_tools(ctx: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[types.Tool(name="add", input_schema={"type": "object"})])

    async def call_tool(ctx: Any, params: Any) -> Any:
        return types.CallToolResult(content=[types.TextContent(type="text", text=params.name)])

    server = Server("low", on_list_tools=list_tools, on_call_tool=call_tool)
    async with Client(server, mode=mode) as client:
        [tool] = (await client.list_tools()).tools
        result = await client.call_tool("add")
    assert tool.input_schema["type"] == "object" and get_display_name(tool) == "add"
    assert (result.is_error, result.content[0].text) == (False, "add")


async def test_the_low_level_server_of_an_app_is_a_target() -> None:
    mcp = FastMCP("shop")
    mcp.add_tool(lambda: "sold", "sell")
    for name in ("_mcp_server", "_lowlevel_server"):  # Frameworks take it by these names.
        async with Client(getattr(mcp, name)) as client:
            assert (await client.call_tool("sell")).content[0].text == "sold"


@both_modes
async def test_a_client_has_the_keywords_and_the_facts(mode: str) -> None:
    mcp = MCPServer("shop", instructions="Sell.")
    heard: list[Any] = []

    @mcp.tool()
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.info("working")
        return "done"

    async def progress(*values: Any) -> None:
        heard.append(values)

    async def log(params: Any) -> None:
        heard.append(params.data)

    client = Client(
        mcp,
        raise_exceptions=True,
        mode=mode,
        client_info=types.Implementation(name="me", version="1"),
        logging_callback=log,
        log_level="info",
    )
    async with client:
        if mode == "legacy":
            await client.set_logging_level("info")
        await client.call_tool("work", progress_callback=progress)
        assert client.session.server_info == client.server_info and client.server_info.name == "shop"
        assert client.server_capabilities.tools is not None and client.instructions == "Sell."
    assert (1, 2, "half") in heard and "working" in heard


@both_servers
async def test_a_server_has_its_context_and_resources_of_functions(server: Any) -> None:
    mcp = server("shop")

    @mcp.tool()
    async def who() -> str:
        await mcp.get_context().info("asked")
        return str(mcp.get_context().request_id)

    mcp.add_resource(FunctionResource(uri="shop://hours", name="hours", fn=lambda: "9 to 5"))
    async with Client(mcp) as client:
        assert (await client.call_tool("who")).content[0].text
        assert (await client.read_resource("shop://hours")).contents[0].text == "9 to 5"


@both_servers
async def test_a_server_reads_and_calls_for_its_own_program(server: Any) -> None:
    mcp = server("shop")

    @mcp.resource("shop://hours", mime_type="text/x")
    def hours() -> str:
        return "9 to 5"

    @mcp.resource("shop://logo")
    def logo() -> bytes:
        return b"\x00"

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    [contents] = await mcp.read_resource("shop://hours")
    assert (contents.content, contents.mime_type) == ("9 to 5", "text/x")
    assert (await mcp.read_resource("shop://logo")).contents[0].content == b"\x00"
    result = await mcp.call_tool("add", {"a": 1, "b": 2})
    assert isinstance(result, types.CallToolResult)
    assert (result.structured_content, result.is_error) == ({"result": 3}, False)


async def test_a_callback_declares_both_modes_and_a_form_has_no_list_of_texts() -> None:
    class Names(BaseModel):
        names: list[str]

    mcp = MCPServer("shop")

    @mcp.tool()
    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("Names?", Names)
        except TypeError as error:
            return str(error)
        return "asked"

    @mcp.tool()
    async def declared(ctx: Context) -> str:
        return str(ctx.session.client_params.capabilities)

    async def answer(context: Any, params: Any) -> Any:
        return types.ElicitResult(action="decline")

    async with Client(mcp, elicitation_callback=answer, mode="legacy") as client:
        assert (await client.call_tool("declared")).content[0].text == "{'elicitation': {'form': {}, 'url': {}}}"
        assert "cannot show the field 'names'" in (await client.call_tool("ask")).content[0].text


@both_modes
@both_servers
async def test_the_meta_of_a_resource_is_that_of_its_contents(mode: str, server: Any) -> None:
    mcp = server("shop")
    mcp.resource("shop://hours", meta={"k": 1})(lambda: "9 to 5")
    mcp.resource("shop://plain")(lambda: "plain")

    @mcp.resource("shop://items/{name}", meta={"k": 2})
    def item(name: str) -> str:
        return name

    async with Client(mcp, mode=mode) as client:
        metas = [
            (await client.read_resource(f"shop://{path}")).contents[0].meta for path in ("hours", "items/x", "plain")
        ]
    assert metas == [{"k": 1}, {"k": 2}, None]


@both_modes
@both_servers
async def test_lists_of_an_empty_server_are_empty(mode: str, server: Any) -> None:
    mcp = server("empty")
    lists = ("list_tools", "list_resources", "list_resource_templates", "list_prompts")
    assert [await getattr(mcp, name)() for name in lists] == [[], [], [], []]
    async with Client(mcp, mode=mode) as client:
        results = [await getattr(client, name)() for name in lists]
    fields = ("tools", "resources", "resource_templates", "prompts")
    assert [getattr(result, name) for result, name in zip(results, fields, strict=True)] == [[], [], [], []]


@both_servers
async def test_the_first_of_two_of_one_name_stays_with_a_warning(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    mcp = server("shop", warn_on_duplicate_prompts=False)
    with caplog.at_level(logging.WARNING):
        for value in ("first", "second"):
            mcp.add_tool(lambda value=value: value, "item", description=value)
            mcp.resource("shop://item")(lambda value=value: value)
            mcp.prompt("item")(lambda value=value: value)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"shop already has {name!r} among its {kind}: the first one stays"
        for name, kind in (("item", "tools"), ("shop://item", "resources"))
    ]
    async with Client(mcp) as client:
        assert [tool.description for tool in (await client.list_tools()).tools] == ["first"]
        assert (await client.read_resource("shop://item")).contents[0].text == "first"
        assert (await client.get_prompt("item")).messages[0].content.text == "first"


@both_modes
@both_servers
async def test_a_tool_may_have_another_name_with_a_warning(
    mode: str, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = server("shop")
    mcp.add_tool(lambda: "sold", "sell it, Zoë!")
    assert "invalid characters: ' ', ',', 'ë', '!'" in caplog.text
    async with Client(mcp, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["sell it, Zoë!"]
        assert (await client.call_tool("sell it, Zoë!")).content[0].text == "sold"
