"""Sessions over streams of messages, and `Client` of 2.x, as programs and frameworks use them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import anyio
import httpx2
import pytest
from pydantic import Field, TypeAdapter
from starlette.requests import Request
from support.processes import free_port

from mcp_generated.compat import (
    Client,
    ClientSession,
    ClientSessionGroup,
    Context,
    MCPError,
    McpError,
    MCPServer,
    Server,
    StdioServerParameters,
    StreamableHTTPSessionManager,
    create_connected_server_and_client_session,
    sse_client,
    stdio_client,
    streamable_http_client,
    types,
)
from mcp_products.compat.components import Tool
from mcp_products.compat.forms.absent import absent
from mcp_products.compat.parts.resources import FunctionResource
from mcp_products.compat.sessions.client import InputRequiredRoundsExceededError
from mcp_products.compat.sessions.client_session import RequestContext, RequestResponder
from mcp_products.compat.streams.bridges import http_library
from mcp_products.compat.streams.message import SessionMessage, create_client_server_memory_streams
from mcp_runtime.errors import LocalError


def shop() -> MCPServer:
    mcp = MCPServer("shop", instructions="Sell.")

    @mcp.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool()
    def block() -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text="done")], structured_content={"x": 1})

    return mcp


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_a_client_of_2_x_connects_in_each_mode(mode: str) -> None:
    async with Client(shop(), mode=mode, client_info=types.Implementation(name="me", version="1")) as client:
        [first, _] = (await client.list_tools()).tools
        assert (
            first.input_schema["properties"]["a"] == {"title": "A", "type": "integer"}
            and first.output_schema is not None
        )
        result = await client.call_tool("add", {"a": 1, "b": 2}, meta={"k": 1})
        assert (result.structured_content, result.is_error, result.content[0].text) == ({"result": 3}, False, "3")
        assert (await client.session.call_tool("block")).structured_content == {"x": 1}
        expected = "2025-11-25" if mode == "legacy" else "2026-07-28"
        assert client.protocol_version == expected
        if mode != "2026-07-28":  # That asks the server nothing before the first request.
            assert client.server_capabilities.tools is not None and client.instructions == "Sell."
            assert client.server_info.name == "shop"


def test_a_mode_that_is_none_and_a_target_that_is_none_are_refused() -> None:
    with pytest.raises(ValueError, match="'auto', 'legacy'"):
        Client(shop(), mode="newest")
    with pytest.raises(TypeError, match="StdioServerParameters"):
        Client(5)


@pytest.mark.long
async def test_a_client_of_2_x_starts_a_command(tmp_path: Any) -> None:
    program = tmp_path / "server.py"
    program.write_text("from mcp_generated.compat import MCPServer\nMCPServer('one').run()\n")
    parameters = StdioServerParameters(
        command=sys.executable, args=[str(program)], env={"PYTHONPATH": ":".join(sys.path)}
    )
    async with Client(parameters) as client:
        assert client.server_info.name == "one"
    async with Client(stdio_client(parameters)) as client:
        assert client.server_info.name == "one"
    with pytest.raises(OSError):
        async with stdio_client(StdioServerParameters(command="no-such-command-here")):
            pass


@pytest.mark.parametrize("caught", [McpError, MCPError])
async def test_errors_of_a_session_are_those_of_the_sdk(caught: type[Exception]) -> None:
    async with create_connected_server_and_client_session(shop()) as session:
        with pytest.raises(caught) as error:
            await session.get_prompt("none")
    assert error.value.error.code == error.value.code != 0  # type: ignore[attr-defined]
    assert isinstance(error.value.error, types.ErrorData)  # type: ignore[attr-defined]


async def test_the_message_handler_gets_notifications_and_errors_of_the_transport() -> None:
    seen: list[Any] = []
    arrived = asyncio.Event()

    async def handle(message: Any) -> None:
        seen.append(message)
        if len(seen) == 2:
            arrived.set()

    async with create_client_server_memory_streams() as (client, server):
        async with ClientSession(*client, message_handler=handle):
            notification = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
            await server[1].send(SessionMessage(notification))
            await server[1].send(ValueError("cut off"))  # type: ignore[arg-type]
            await asyncio.wait_for(arrived.wait(), 10)
    assert isinstance(seen[0], types.ToolListChangedNotification) and isinstance(seen[1], ValueError)


@asynccontextmanager
async def served(server: Any) -> AsyncGenerator[Any]:
    async with create_client_server_memory_streams() as (client, end), anyio.create_task_group() as group:
        group.start_soon(server.run, *end, server.create_initialization_options())
        yield client
        await client[1].aclose()


async def test_a_low_level_server_runs_over_streams_of_messages() -> None:
    seen: list[Any] = []

    async def call(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        seen.append(params)
        return types.CallToolResult(content=[types.TextContent(text=str(params.arguments))])

    async with served(Server("low", on_call_tool=call)) as streams, ClientSession(*streams) as session:
        await session.initialize()
        result = await session.call_tool("x", {"a": 1})
    assert result.content[0].text == "{'a': 1}" and isinstance(seen[0], types.CallToolRequestParams)


async def test_a_program_sends_requests_of_its_own_and_reads_raw_messages() -> None:
    async with served(Server("low")) as (read, write):
        request = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        await write.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(request)))
        answer = (await read.receive()).message
    assert isinstance(answer, types.JSONRPCResponse) and answer.id == 7
    async with served(Server("low")) as streams, ClientSession(*streams) as session:
        await session.initialize()
        assert isinstance(await session.send_request(types.PingRequest(), types.EmptyResult), types.EmptyResult)


async def test_a_request_that_gets_no_response_in_time_is_cancelled() -> None:
    async with create_client_server_memory_streams() as (client, server):
        async with ClientSession(*client) as session:
            with anyio.fail_after(10):
                async with anyio.create_task_group() as group:
                    group.start_soon(_expect_timeout, session)
                    first = (await server[0].receive()).message  # type: ignore[union-attr]
                    second = (await server[0].receive()).message  # type: ignore[union-attr]
    assert first.method == "tools/list" and second.params == {"requestId": first.id}


async def _expect_timeout(session: Any) -> None:
    with pytest.raises(McpError, match="Timed out") as error:
        await session.send_request(types.ListToolsRequest(), types.ListToolsResult, 0.05)
    assert error.value.code == types.REQUEST_TIMEOUT


async def test_structured_content_that_contradicts_its_schema_is_refused() -> None:
    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return types.ListToolsResult(
            tools=[types.Tool(name="t", input_schema={"type": "object"}, output_schema=schema)]
        )

    async def call(ctx: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[], structured_content={"n": "one"})

    server: Any = Server("low", on_list_tools=list_tools, on_call_tool=call)
    async with create_connected_server_and_client_session(server) as session:
        with pytest.raises(RuntimeError, match="Invalid structured content returned by tool t"):
            await session.call_tool("t", {})


async def test_input_that_a_server_requires_comes_from_the_callbacks() -> None:
    mcp = MCPServer("shop")

    @mcp.tool()
    async def roots(ctx: Context) -> str:
        return str((await ctx.session.list_roots()).roots[0].uri)

    async def answer(context: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri="file:///tmp")])

    async def refuse(context: Any) -> Any:
        return types.ErrorData(code=-5, message="no roots")

    for mode in ("auto", "legacy"):
        async with Client(mcp, mode=mode, list_roots_callback=answer) as client:
            assert (await client.call_tool("roots")).content[0].text == "file:///tmp"
    async with Client(mcp, list_roots_callback=refuse) as client:
        with pytest.raises(MCPError, match="no roots"):
            await client.call_tool("roots")
    async with Client(mcp, list_roots_callback=answer, input_required_max_rounds=0) as client:
        with pytest.raises(InputRequiredRoundsExceededError):
            await client.call_tool("roots")


def test_names_of_annotations_take_type_parameters() -> None:
    missing = absent("mcp.shared.session.BaseSession")
    for kind in (RequestContext, RequestResponder, missing):
        assert kind[ClientSession, None].__origin__ is kind
    with pytest.raises(NotImplementedError, match="BaseSession has no counterpart"):
        missing()


async def test_tools_and_resources_are_made_of_functions() -> None:
    def half(value: int, ctx: Any = None) -> float:
        """Return the half."""
        return value / 2

    tool = Tool.from_function(half, context_kwarg="ctx")
    assert tool.parameters["properties"]["value"]["type"] == "integer" and "ctx" not in tool.parameters["properties"]
    assert await tool.run({"value": 3}) == 1.5
    mcp = MCPServer("shop", tools=[tool])
    mcp.add_resource(FunctionResource.from_function(lambda: "text", uri="demo://a", name="a"))
    async with Client(mcp) as client:
        assert (await client.call_tool("half", {"value": 3})).content[0].text == "1.5"
        assert (await client.read_resource("demo://a")).contents[0].text == "text"
    with pytest.raises(ValueError, match="lambda"):
        Tool.from_function(lambda: 1)


def test_the_http_library_of_2_x_is_httpx2() -> None:
    assert http_library() is httpx2


def test_a_framework_makes_subclasses_of_the_parameters_of_a_command() -> None:
    class Own(StdioServerParameters):
        type: Literal["own"] = "own"
        seconds: float = 5

    class Other(StdioServerParameters):
        type: Literal["other"] = "other"

    either: TypeAdapter[Own | Other] = TypeAdapter(Annotated[Own | Other, Field(discriminator="type")])
    made = either.validate_python({"type": "own", "command": "python", "args": ["a"], "seconds": 1})
    assert isinstance(made, Own) and (made.command, made.args, made.seconds) == ("python", ["a"], 1)
    assert made.model_copy(update={"cwd": "/tmp"}).model_dump(exclude_none=True)["cwd"] == "/tmp"
    with pytest.raises(LocalError, match="messages are always in UTF-8"):
        Own(command="python", encoding="latin-1")


async def test_an_sse_client_of_an_address_where_nobody_listens_fails_at_once() -> None:
    with pytest.raises(BaseExceptionGroup) as raised:
        async with sse_client(f"http://127.0.0.1:{free_port()}/sse"):
            raise AssertionError("it was opened")
    assert raised.group_contains(httpx2.ConnectError)


async def test_a_request_after_the_end_of_a_connection_raises_its_error() -> None:
    async with create_client_server_memory_streams() as (client, (read, write)), ClientSession(*client) as session:
        await read.aclose()
        await write.aclose()
        with pytest.raises((McpError, anyio.ClosedResourceError, anyio.BrokenResourceError)) as raised:
            await session.send_ping()
        assert getattr(raised.value, "code", None) == types.CONNECTION_CLOSED


async def test_a_log_message_of_a_session_has_no_warning_of_another_name(recwarn: pytest.WarningsRecorder) -> None:
    server, seen = Server("talker"), []

    @server.call_tool(validate_input=False)
    async def call(name: str, arguments: Any) -> Any:
        await server.request_context.session.send_log_message(level="info", data="hello")
        return []

    async def log(params: Any) -> None:
        seen.append(params.data)

    async with create_connected_server_and_client_session(server, logging_callback=log) as session:
        await session.call_tool("say")
    assert seen == ["hello"] and not [item for item in recwarn if "deprecated" in str(item.message)]


async def test_the_tool_of_a_result_that_is_not_listed_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("hidden")

    @server.call_tool(validate_input=False)
    async def call(name: str, arguments: Any) -> Any:
        return {"found": 1}

    async with create_connected_server_and_client_session(server) as session:
        assert (await session.call_tool("secret")).structured_content == {"found": 1}
    assert "Tool secret not listed by server" in caplog.text


async def test_a_group_has_no_session_that_it_did_not_connect() -> None:
    async with create_connected_server_and_client_session(shop()) as session, ClientSessionGroup() as group:
        with pytest.raises(McpError, match="not managed"):
            await group.disconnect_from_server(session)
        await group.connect_with_session(session.server_info, session)
        assert "add" in group.tools
        await group.disconnect_from_server(session)
        assert not group.tools


def test_capabilities_are_types_of_the_form() -> None:
    server = Server("empty")
    assert type(server.get_capabilities()) is types.ServerCapabilities


async def test_the_request_of_a_handler_is_one_of_starlette() -> None:
    server, found = Server("web"), list[Any]()

    @server.call_tool(validate_input=False)
    async def call(name: str, arguments: Any) -> Any:
        found.append(server.request_context.request)
        return []

    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    async with manager.run():
        transport = httpx2.ASGITransport(app=manager)
        async with httpx2.AsyncClient(transport=transport, headers={"x-own": "1"}) as http:
            async with Client(streamable_http_client("http://localhost/mcp", http_client=http)) as client:
                await client.call_tool("look")
    [request] = found
    assert isinstance(request, Request) and request.headers["X-Own"] == "1"
