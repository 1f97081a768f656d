"""The packages `mcp`, `mcp_types` and `fastmcp` of products/names: wheels, modules, and programs that import them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT

for needed in ("anyio", "build", "hatchling"):
    pytest.importorskip(needed, reason=f"{needed} is not installed")

NAMES = ROOT / "products" / "names"
FORMS = ("v1", "v2")
SERVER = """
from mcp.server.{module} import {name}, Context
from mcp.types import TextContent, ToolAnnotations

app = {name}("shop")

@app.tool(annotations=ToolAnnotations({hint}=True))
def add(a: int, b: int) -> list[TextContent]:
    return [TextContent(type="text", text=str(a + b))]

if __name__ == "__main__":
    app.run()
"""
PROGRAMS = {
    "v1": """
import asyncio, sys
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types

async def main():
    parameters = StdioServerParameters(command=sys.executable, args=["server.py"], env={"PYTHONPATH": sys.argv[1]})
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        [tool] = (await session.list_tools()).tools
        assert isinstance(tool, types.Tool) and tool.inputSchema["type"] == "object" and tool.annotations.readOnlyHint
        result = await session.call_tool("add", {"a": 1, "b": 2})
        assert (result.content[0].text, result.isError, result.structuredContent) == ("3", False, None)
        try:
            await session.read_resource("none://here")
        except McpError as error:
            print(error.error.code)

asyncio.run(main())
""",
    "v2": """
import asyncio, sys
from fastmcp import Client as Fast
from mcp import Client, MCPError, StdioServerParameters
import mcp_types

async def main():
    parameters = StdioServerParameters(command=sys.executable, args=["server.py"], env={"PYTHONPATH": sys.argv[1]})
    async with Client(parameters) as client:
        [tool] = (await client.list_tools()).tools
        assert isinstance(tool, mcp_types.Tool) and tool.input_schema["type"] == "object"
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.content[0].text, result.is_error) == ("3", False)
    from server import app
    async with Fast(app) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"
        try:
            await client.read_resource("none://here")
        except MCPError as error:
            print(error.error.code)

asyncio.run(main())
""",
}


def hook() -> Any:
    spec = util.spec_from_file_location("names_hook", NAMES / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(folder: Path, form: str) -> str:
    """Write the packages of a form into a folder, and return the PYTHONPATH of a program that imports them."""
    hook().write(folder / "names", form)
    return os.pathsep.join([str(folder / "names"), *sys.path])


def run(folder: Path, path: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": path, "PATH": "/usr/bin"}, capture_output=True, text=True
    )


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_a_wheel_has_the_packages_and_says_what_it_is(form: str, tmp_path: Path) -> None:
    words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(NAMES / form)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert packages == ({"mcp"} if form == "v1" else {"mcp", "mcp_types", "fastmcp"})
    assert "+generated." in wheel.name and "mcp/py.typed" in names


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_each_module_can_be_imported(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form)
    modules = [
        item.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for item in hook().write(tmp_path, form)
    ]
    lines = [f"import {name}" for name in modules if not name.endswith(("py.typed", "__main__"))]
    code = "\n".join(
        [*lines, "import mcp", "print(mcp.__doc__)", "assert 'Client' in vars(mcp) or 'McpError' in vars(mcp)"]
    )
    done = run(tmp_path, path, "-c", code)
    assert "not the original package" in done.stdout, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_a_program_of_the_original_runs_with_a_server_that_it_starts(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form)
    own = {"module": "fastmcp", "name": "FastMCP", "hint": "readOnlyHint"}
    newer = {"module": "mcpserver", "name": "MCPServer", "hint": "read_only_hint"}
    (tmp_path / "server.py").write_text(SERVER.format(**(own if form == "v1" else newer)))
    (tmp_path / "program.py").write_text(PROGRAMS[form])
    done = run(tmp_path, path, "program.py", path)
    unknown = {"v1": "-32002", "v2": "-32602"}[form]  # The specification's codes for a resource that is not there.
    assert done.stdout.strip() == unknown, done.stdout + done.stderr


@pytest.mark.long
def test_names_without_a_counterpart_say_so_where_they_are_used(tmp_path: Path) -> None:
    path = written(tmp_path, "v2")
    code = "from mcp.client.extension import ResultClaim\nclass Own(ResultClaim): ...\nOwn()"
    done = run(tmp_path, path, "-c", code)
    assert "NotImplementedError: mcp.client.extension.ResultClaim has no counterpart" in done.stderr
    assert run(tmp_path, path, "-c", "from mcp.client.streamable_http import streamablehttp_client").returncode == 1


ABSENT = """
from fastmcp.exceptions import AuthorizationError
from fastmcp.server.auth import MultiAuth, RemoteAuthProvider
from fastmcp.server.auth.cimd import CIMDClientManager
from fastmcp.server.auth.jwt_issuer import JWTIssuer
from fastmcp.server.providers.proxy import ProxyClient
from fastmcp.server.transforms import Transform
from mcp.client.extension import ResultClaim
from mcp.server.extension import Extension
from mcp.server.subscriptions import ListenHandler

class Own(Transform):
    def __init__(self):
        self.seen = []

try:
    raise KeyError("that of the program")
except (AuthorizationError, KeyError) as error:
    print(error)
for kind in (
    CIMDClientManager, Extension, JWTIssuer, ListenHandler, MultiAuth, Own, ProxyClient, RemoteAuthProvider, ResultClaim
):
    try:
        kind()
        print(kind, "was made")
    except NotImplementedError as error:
        told = str(error).partition("mcp-generated; ")[2]
        print(kind.__name__, any(word in told for word in ("write ", "subclass ", "leave it out", "signs tokens")))
"""


@pytest.mark.long
def test_a_name_without_a_counterpart_says_what_to_write_instead(tmp_path: Path) -> None:
    done = run(tmp_path, written(tmp_path, "v2"), "-c", ABSENT)
    first, *lines = done.stdout.splitlines()
    assert "that of the program" in first and len(lines) == 9, done.stderr
    assert all(line.endswith(" True") for line in lines), done.stdout


SAME_NAMES = {
    "v1": """
from mcp.server import Server
from mcp.server.fastmcp.server import MCPServer
from mcp.server.lowlevel.server import lifespan
assert MCPServer is Server
""",
    "v2": """
import mcp_types
from mcp.client.streamable_http import RequestContext
from mcp.server.lowlevel.server import lifespan
from mcp.server.mcpserver.resolve import Tool
assert Tool is mcp_types.Tool
assert not hasattr(RequestContext, "session")
""",
}


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_no_name_is_another_thing_of_the_same_name(form: str, tmp_path: Path) -> None:
    made = (
        f"{SAME_NAMES[form]}import asyncio\nasync def main():\n    async with lifespan(None) as state: print(state)\n"
    )
    done = run(tmp_path, written(tmp_path, form), "-c", f"{made}asyncio.run(main())")
    assert done.stdout.strip() == "{}", done.stderr


def test_the_packages_refuse_originals_besides_them(tmp_path: Path) -> None:
    path = written(tmp_path, "v2")
    original = tmp_path / "names" / "mcp_types-2.3.0.dist-info"
    original.mkdir()
    (original / "METADATA").write_text("Metadata-Version: 2.1\nName: mcp-types\nVersion: 2.3.0\n")
    done = run(tmp_path, path, "-c", "import mcp")
    assert "ImportError: mcp: mcp-types 2.3.0 is installed besides" in done.stderr


@pytest.mark.long
def test_the_command_says_what_the_package_is_and_what_it_does_not_have(tmp_path: Path) -> None:
    path = written(tmp_path, "v2")
    information = tmp_path / "names" / "mcp-2.3.0+generated.0.2.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mcp\nVersion: 2.3.0+generated.0.2.0\n")
    assert "not the original package. 2.3.0+generated" in run(tmp_path, path, "-m", "mcp", "--version").stdout
    assert "mcp: 'dev server.py' is not here" in run(tmp_path, path, "-m", "mcp", "dev", "server.py").stderr


# A low-level server of 1.30.

LOW_LEVEL = """
import asyncio, json
from mcp import types
from mcp.server.lowlevel import Server
from mcp.shared.memory import create_connected_server_and_client_session

server = Server("low")
TOOL = {"inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}

@server.list_tools()
async def tools():
    return [types.Tool(name=name, **TOOL) for name in ("fail", "table", "both")]

@server.call_tool()
async def call(name, arguments):
    if name == "table":
        return {"a": 1}
    if name == "both":
        return [types.TextContent(type="text", text="two")], {"b": 2}
    raise ValueError(f"Unknown tool: {name}")

async def main():
    async with create_connected_server_and_client_session(server) as client:
        for name, arguments in (("table", {}), ("both", {}), ("fail", {}), ("gone", {}), ("table", {"n": "x"})):
            result = await client.call_tool(name, arguments)
            block = result.content[0]
            print(json.dumps([result.isError, block.type, block.text, result.structuredContent]))

asyncio.run(main())
"""
LOW_LEVEL_RESULTS = [
    '[false, "text", "{\\n  \\"a\\": 1\\n}", {"a": 1}]',
    '[false, "text", "two", {"b": 2}]',
    '[true, "text", "Unknown tool: fail", null]',
    '[true, "text", "Unknown tool: gone", null]',
]


@pytest.mark.long
def test_exceptions_and_tables_of_tools_of_a_low_level_server_become_results(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LOW_LEVEL)
    done = run(tmp_path, written(tmp_path, "v1"), "program.py")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == LOW_LEVEL_RESULTS
    assert lines[4].startswith('[true, "text", "Input validation error: ')


WRAPPED = """
import asyncio
from mcp import types
from mcp.server.fastmcp import FastMCP
from mcp.shared.memory import create_connected_server_and_client_session

app = FastMCP("wrapped")
app.add_tool(lambda: "x", "say")

@app._mcp_server.set_logging_level()
async def level(value):
    pass

handlers = app._mcp_server.request_handlers
for kind in (types.ListToolsRequest, types.SetLevelRequest):
    def wrap(original):
        async def wrapped(request):
            result = await original(request)
            print(request.method, type(result.root).__name__)
            return result
        return wrapped
    handlers[kind] = wrap(handlers[kind])

async def main():
    print((await app.list_tools())[0].inputSchema["type"])
    async with create_connected_server_and_client_session(app) as client:
        await client.list_tools()
        print(type(await client.set_logging_level("error")).__name__)

asyncio.run(main())
"""


@pytest.mark.long
def test_what_wraps_the_handlers_of_an_app_gets_results_of_the_form(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(WRAPPED)
    done = run(tmp_path, written(tmp_path, "v1"), "program.py")
    assert done.returncode == 0, done.stderr
    listed = "tools/list ListToolsResult"
    assert done.stdout.splitlines() == [listed, "object", listed, "logging/setLevel EmptyResult", "EmptyResult"]


IMPORTED = """
from fastmcp import FastMCP
from fastmcp.server.auth.providers.github import GitHubProvider
from fastmcp.server.http import StarletteWithLifespan
from fastmcp.tools import FunctionTool
from fastmcp.utilities.auth import parse_scopes
from mcp.client import CacheConfig

print(isinstance(FastMCP("x").http_app(), StarletteWithLifespan), FunctionTool.__name__, CacheConfig().default_ttl_ms)
print([parse_scopes(scopes) for scopes in (None, "", "a,b , c", '["a", "b"]', "[bad", ["a", "b "])])
GitHubProvider()
"""


@pytest.mark.long
def test_what_frameworks_import_of_fastmcp_is_there(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(IMPORTED)
    done = run(tmp_path, written(tmp_path, "v2"), "program.py")
    scopes = "[None, [], ['a', 'b', 'c'], ['a', 'b'], ['[bad'], ['a', 'b']]"
    assert done.stdout.splitlines() == ["True FunctionTool 0", scopes], done.stderr
    assert "NotImplementedError: fastmcp.server.auth.providers.github.GitHubProvider" in done.stderr


BY_TYPE = """
import asyncio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import request_ctx

server = Server("low")

@server.list_tools()
async def tools():
    return [types.Tool(name=request_ctx.get().name, inputSchema={})]

class Request:
    name = "mine"

async def main():
    request_ctx.set(Request)
    result = await server.request_handlers[types.ListToolsRequest](types.ListToolsRequest(method="tools/list"))
    print(type(result).__name__, result.root.tools[0].name)

asyncio.run(main())
"""


@pytest.mark.long
def test_a_program_of_1_30_calls_a_handler_of_a_request_that_it_sets(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(BY_TYPE)
    done = run(tmp_path, written(tmp_path, "v1"), "program.py")
    assert done.stdout.split() == ["ServerResult", "mine"], done.stderr


CANCELLED = """
import anyio
from mcp import McpError, types
from mcp.server import Server
from mcp.shared.memory import create_connected_server_and_client_session

server, started, ended = Server("slow"), anyio.Event(), anyio.Event()

@server.call_tool(validate_input=False)
async def call(name, arguments):
    started.set()
    await anyio.sleep_forever()

async def main():
    async with create_connected_server_and_client_session(server) as session, anyio.create_task_group() as group:
        async def wait():
            try:
                await session.call_tool("wait", {})
            except McpError as error:
                print(error)
            ended.set()
        group.start_soon(wait)
        await started.wait()
        for id in range(3):  # The ids of other requests end nothing.
            params = types.CancelledNotificationParams(requestId=id)
            note = types.CancelledNotification(method="notifications/cancelled", params=params)
            await session.send_notification(types.ClientNotification(note))
        with anyio.fail_after(10):
            await ended.wait()
        assert await session.send_ping() is not None

anyio.run(main)
"""


@pytest.mark.long
def test_a_request_that_a_program_of_1_30_cancels_by_its_id_ends(tmp_path: Path) -> None:
    done = run(tmp_path, written(tmp_path, "v1"), "-c", CANCELLED)
    assert done.stdout.strip().startswith("Request cancelled"), done.stdout + done.stderr
