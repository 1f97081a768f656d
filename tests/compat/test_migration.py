"""The rows of docs/migration.md run, and programs in the words of the official SDK do what they do there."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.official.imports import rewrite
from support.project import ROOT

from mcp_generated.compat import (
    ClientSession,
    FastMCP,
    FastMCPClient,
    McpError,
    MCPServer,
    NotificationOptions,
    ReadResourceContents,
    Server,
    StandaloneFastMCP,
    StdioServerParameters,
    create_connected_server_and_client_session,
    stdio_client,
    types,
)

ROWS = re.findall(
    r"^\| `((?:from|import) [^`]+)`[^|]*\| `([^`]+)` \|$", (ROOT / "docs" / "migration.md").read_text(), re.M
)


def connected(server: Any, **callbacks: Any) -> Any:
    return create_connected_server_and_client_session(server, **callbacks)


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[row[0] for row in ROWS])
def test_each_import_line_of_the_migration_table_runs(theirs: str, ours: str) -> None:
    names: dict[str, Any] = {}
    exec(ours, names)
    del names["__builtins__"]
    assert names and all(value is not None for value in names.values())


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[row[0] for row in ROWS])
def test_the_measurement_rewrites_import_lines_as_the_table_says(theirs: str, ours: str) -> None:
    bound: list[set[str]] = []
    for line in (rewrite(theirs), ours):
        names: dict[str, Any] = {}
        exec(line, names)
        bound.append(set(names) - {"__builtins__"})
    assert bound[0] == bound[1]


def test_the_table_has_rows() -> None:
    assert len(ROWS) > 30


def test_an_unknown_name_says_where_to_look() -> None:
    with pytest.raises(ImportError):
        exec("from mcp_generated.compat import NoSuchName", {})
    with pytest.raises(AttributeError, match="docs/migration.md"):
        exec("import mcp_generated.compat as compat\ncompat.NoSuchName", {})


async def test_the_client_of_fastmcp_keeps_its_calls() -> None:
    mcp = StandaloneFastMCP("Demo")

    @mcp.tool
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.resource("note://today")
    def today() -> str:
        return "milk"

    async with FastMCPClient(mcp) as client:
        assert (await client.list_tools())[0].name == "add"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        assert (await client.read_resource("note://today"))[0].text == "milk"


@pytest.mark.parametrize("server_class", [FastMCP, MCPServer, StandaloneFastMCP])
async def test_a_completion_function_gets_the_types_that_programs_import(server_class: Any) -> None:
    mcp = server_class("Demo")

    @mcp.resource("github://repos/{owner}/{repo}")
    def repository(owner: str, repo: str) -> str:
        return f"{owner}/{repo}"

    @mcp.prompt()
    def review(language: str) -> str:
        return f"Review this {language} code."

    @mcp.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        if isinstance(ref, types.PromptReference) and isinstance(argument, types.CompletionArgument):
            return types.Completion(values=["python"], hasMore=False)
        if isinstance(ref, types.ResourceTemplateReference) and isinstance(context, types.CompletionContext):
            return types.Completion(values=[f"{context.arguments['owner']}-sdk"])
        return None

    async with connected(mcp) as session:
        prompt = types.PromptReference(type="ref/prompt", name="review")
        assert (await session.complete(prompt, {"name": "language", "value": "p"})).completion.values == ["python"]
        template = types.ResourceTemplateReference(type="ref/resource", uri="github://repos/{owner}/{repo}")
        argument = {"name": "repo", "value": ""}
        completed = await session.complete(template, argument, context_arguments={"owner": "mcp"})
        assert completed.completion.values == ["mcp-sdk"]


# ---- types ----------------------------------------------------------------------------------------------------------


def test_types_take_the_names_of_json_and_those_of_python() -> None:
    for tool in (
        types.Tool(name="a", inputSchema={"type": "object"}),
        types.Tool(name="a", input_schema={"type": "object"}),
    ):
        assert tool.inputSchema == tool.input_schema and tool.outputSchema is None
    result = types.CallToolResult(content=[types.TextContent(type="text", text="x")], isError=True)
    assert result.isError is True and result.is_error is True
    with pytest.raises(AttributeError):
        result.is_errror


def test_types_take_urls_where_the_schema_has_a_string() -> None:
    resource = types.Resource(uri=types.AnyUrl("file:///a.txt"), name="a")
    assert resource.uri == "file:///a.txt"


def test_a_type_of_an_older_revision_is_there_too() -> None:
    assert types.InitializeRequest.__name__ == "InitializeRequest"
    assert types.LATEST_PROTOCOL_VERSION == "2026-07-28"


# ---- the low level --------------------------------------------------------------------------------------------------


def decorated_server() -> Server:
    server: Server = Server("demo", version="2")

    @server.list_tools()
    async def list_tools() -> list[Any]:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        output = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        return [types.Tool(name="add", inputSchema=schema, outputSchema=output)]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["a"] < 0:
            raise ValueError("too small")
        return {"sum": arguments["a"] + 1} if arguments["a"] < 10 else {}

    @server.list_resources()
    async def list_resources() -> list[Any]:
        return [types.Resource(uri=types.AnyUrl("demo://a"), name="a")]

    @server.read_resource()
    async def read_resource(uri: Any) -> list[ReadResourceContents]:
        return [ReadResourceContents(content=str(uri)), ReadResourceContents(content=b"x", mime_type="image/png")]

    @server.list_prompts()
    async def list_prompts() -> list[Any]:
        return [types.Prompt(name="p")]

    @server.get_prompt()
    async def get_prompt(name: str, arguments: dict[str, str] | None) -> Any:
        raise ValueError(f"Unknown prompt: {name}")

    return server


async def test_decorated_handlers_answer_as_in_1_x() -> None:
    async with connected(decorated_server()) as session:
        assert session.initialize_result.serverInfo.version == "2"
        [tool] = (await session.list_tools()).tools
        assert tool.inputSchema["type"] == "object"
        result = await session.call_tool("add", {"a": 1})
        assert (result.structuredContent, result.isError) == ({"sum": 2}, False)
        assert result.content[0].text == '{\n  "sum": 2\n}'
        assert [
            content.text if hasattr(content, "text") else content.blob
            for content in (await session.read_resource(types.AnyUrl("demo://a"))).contents
        ] == ["demo://a", "eA=="]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({}, "Input validation error"), ({"a": -1}, "too small"), ({"a": 10}, "Output validation error")],
)
async def test_a_wrong_call_gives_an_error_result_with_a_reason(arguments: dict[str, Any], text: str) -> None:
    async with connected(decorated_server()) as session:
        result = await session.call_tool("add", arguments)
    assert result.isError and text in result.content[0].text


async def test_an_exception_of_a_handler_is_an_error_with_its_text() -> None:
    async with connected(decorated_server()) as session:
        with pytest.raises(McpError, match="Unknown prompt: x") as raised:
            await session.get_prompt("x")
    assert raised.value.error.message == "Unknown prompt: x"


async def test_handlers_of_the_constructor_get_the_request() -> None:
    requests: list[Any] = []

    async def list_tools(ctx: Any, params: Any) -> Any:
        requests.append((ctx.method, ctx.protocol_version, ctx.lifespan_context))
        return types.ListToolsResult(tools=[])

    server = Server("demo", on_list_tools=list_tools)
    async with connected(server) as session:
        assert (await session.list_tools()).tools == []
    assert requests == [("tools/list", "2025-11-25", None)]


def test_an_unknown_handler_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(TypeError, match="on_list_tool'; handlers: on_list_tools"):
        Server("demo", on_list_tool=None)


async def test_handlers_of_requests_that_only_older_revisions_have_are_called() -> None:
    server: Server = Server("demo")
    calls: list[str] = []

    @server.set_logging_level()
    async def set_level(level: str) -> None:
        calls.append(level)

    @server.subscribe_resource()
    async def subscribe(uri: Any) -> None:
        calls.append(str(uri))

    @server.list_tools()
    async def list_tools() -> list[Any]:
        return [types.Tool(name="t", inputSchema={"type": "object"})]

    async with connected(server) as session:
        await session.set_logging_level("error")
        await session.subscribe_resource("demo://a")
        assert [tool.name for tool in (await session.list_tools()).tools] == ["t"]
    assert calls == ["error", "demo://a"]


def test_capabilities_are_those_of_the_handlers() -> None:
    capabilities = decorated_server().get_capabilities(NotificationOptions(tools_changed=True), {"x": {}})
    assert capabilities.tools.listChanged is True and capabilities.prompts is not None
    assert capabilities.completions is None and capabilities.experimental == {"x": {}}


async def test_streams_of_another_library_are_refused_with_the_line_to_write() -> None:
    with pytest.raises(Exception, match="stdio_server"):
        await decorated_server().run(object(), object())
    with pytest.raises(TypeError, match="stdio_client"):
        ClientSession(object(), object())


async def test_a_handler_of_1_x_gets_a_uri_with_the_parts_of_a_url() -> None:
    server: Server = Server("demo")

    @server.read_resource()
    async def read_resource(uri: Any) -> str:
        assert uri == types.AnyUrl("demo://a/b?c") and uri == "demo://a/b?c"
        return " ".join([uri.scheme, uri.host, uri.path, uri.query])

    async with connected(server) as session:
        [content] = (await session.read_resource("demo://a/b?c")).contents
    assert content.text == "demo a /b c"


# ---- the high level -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server_class", [FastMCP, MCPServer])
async def test_a_server_converts_arguments_and_that_of_1_x_shows_the_text_of_exceptions(server_class: Any) -> None:
    mcp = server_class("demo")

    @mcp.tool()
    def half(value: int) -> str:
        if value % 2:
            raise ValueError("odd")
        return str(value // 2)

    async with connected(mcp) as session:
        assert (await session.call_tool("half", {"value": "4"})).content[0].text == "2"
        result = await session.call_tool("half", {"value": 3})
    shown = ": odd" if server_class is FastMCP else ""
    assert result.isError and result.content[0].text == f"Error executing tool half{shown}"


def test_a_keyword_without_a_counterpart_is_refused() -> None:
    with pytest.raises(TypeError, match="no keyword argument 'resource_security'; paths are always checked"):
        FastMCP("demo", resource_security=object())


async def test_middleware_of_2_x_sees_the_method_and_the_params() -> None:
    mcp = MCPServer("demo")
    calls: list[Any] = []

    async def record(ctx: Any, call_next: Any) -> Any:
        calls.append((ctx.method, ctx.params.get("name")))
        return await call_next(ctx)

    mcp.middleware.append(record)
    mcp.add_tool(lambda: "x", name="t")
    async with connected(mcp) as session:
        await session.call_tool("t")
    assert ("tools/call", "t") in calls


# ---- the client -----------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_session_over_stdio_uses_a_server_of_ours(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import asyncio\nfrom mcp_generated.compat import Server, stdio_server, types\n"
        "server = Server('demo')\n"
        "@server.list_tools()\nasync def tools(): return [types.Tool(name='t', inputSchema={'type': 'object'})]\n"
        "async def main():\n    async with stdio_server() as (read, write):\n"
        "        await server.run(read, write, server.create_initialization_options())\n"
        "asyncio.run(main())\n"
    )
    parameters = StdioServerParameters(
        command=sys.executable, args=[str(program)], env={"PYTHONPATH": ":".join(sys.path)}
    )
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == ["t"]
        assert session.protocol_version == "2025-11-25"


async def test_callbacks_answer_the_server_and_get_its_messages() -> None:
    server: Server = Server("demo")
    messages: list[Any] = []
    progress: list[Any] = []
    reported = asyncio.Event()

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[Any]:
        session = server.request_context.session
        await session.send_progress_notification("token", 1, 2, "half")
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="q"))
        result = await session.create_message([message], max_tokens=5)
        roots = await session.list_roots()
        return [result.content, types.TextContent(type="text", text=str(roots.roots[0].uri))]

    async def sample(context: Any, params: Any) -> Any:
        messages.append(params.messages[0].content.text)
        content = types.TextContent(type="text", text="answer")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(context: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri="file:///tmp")])

    async def on_progress(value: float, total: float | None, message: str | None) -> None:
        progress.append((value, total, message))
        reported.set()

    callbacks = {"sampling_callback": sample, "list_roots_callback": roots}
    async with connected(server, **callbacks) as session:
        result = await session.call_tool("x", {}, progress_callback=on_progress)
        await asyncio.wait_for(reported.wait(), 10)
    assert [content.text for content in result.content] == ["answer", "file:///tmp"]
    assert messages == ["q"] and progress == [(1, 2, "half")]
