"""A draft gives a method and a property other names: an app, classes, clients and bridges of every version go on, and
the headers of tools are those of the new names."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.in_process import asking
from support.schemas.draft_packages import draft_package
from support.schemas.proposals import PROPOSALS

from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.upstream.target import Target
from mcp_runtime.transports.memory import connect_in_memory

PREFIX = "io.modelcontextprotocol/"
HEADER_MISMATCH = -32020


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The releases, and a draft in which `tools/call` and the schema of a tool have other names."""
    renames = [PROPOSALS["a renamed property"], PROPOSALS["a renamed method"]]
    changes = [proposal.change_of_types for proposal in renames]
    rows = "".join(proposal.rows for proposal in renames)
    return draft_package(tmp_path_factory.mktemp("renamed"), "renamed_names", {"draft": changes}, rows)


SERVER = """
import sys
from renamed_names.vdraft import Server, types as t

class Greeting(Server):
    async def list_tools(self, ctx, params):
        name = {"type": "string", "x-mcp-header": "Who"}
        schema = t.ToolParameters(properties={"who": name}, required=["who"])
        return t.ListToolsResult(tools=[t.Tool(name="greet", parameters=schema)])

    async def call_tool(self, ctx, params):
        return t.CallToolResult(content=[t.TextContent(text=f"hello {params.arguments['who']}")])

server = Greeting(name="greeting", version="1")
if __name__ == "__main__":
    server.run("stdio", revisions=[sys.argv[1]])
"""


@pytest.fixture
def server(package: ModuleType) -> Any:
    """A class of the draft, whose tool repeats an argument in a header."""
    space: dict[str, Any] = {"__name__": "greeting"}
    exec(SERVER, space)
    return space["server"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("header", "expected"), [("Ada", "hello Ada"), ("Bob", HEADER_MISMATCH), (None, HEADER_MISMATCH)]
)
async def test_the_headers_of_a_tool_are_checked_by_its_new_names(
    header: str | None, expected: Any, server: Any
) -> None:
    app = server.asgi()
    headers = {"MCP-Protocol-Version": "draft", "Mcp-Method": "tools/invoke", "Mcp-Name": "greet"}
    headers |= {"accept": "application/json"} | ({} if header is None else {"Mcp-Param-Who": header})
    named = {"protocolVersion": "draft", "clientInfo": {"name": "raw", "version": "1"}, "clientCapabilities": {}}
    params = {"name": "greet", "arguments": {"who": "Ada"}, "_meta": {PREFIX + key: at for key, at in named.items()}}
    async with asking(app) as web:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/invoke", "params": params}
        answer = (await web.post("/mcp", json=message, headers=headers)).json()
    await app.close()
    if isinstance(expected, str):
        assert answer["result"]["content"] == [{"type": "text", "text": expected}]
    else:
        assert answer["error"]["code"] == expected


@pytest.mark.long
@pytest.mark.parametrize("own", ["v2026_07_28", "vdraft"])
async def test_a_client_sends_the_headers_of_a_tool_by_its_new_names(
    own: str, server: Any, package: ModuleType
) -> None:
    from mcp_generated import HTTPOptions

    client_class = __import__(f"{package.__name__}.{own}", fromlist=["Client"]).Client
    app = server.asgi(revisions=["draft"])
    options = HTTPOptions(client=asking(app))
    async with client_class.http("http://localhost/mcp", http=options, revisions="all") as client:
        (tool,) = (await client.list_tools()).tools
        schema = tool.parameters if own == "vdraft" else tool.input_schema
        assert schema.required == ["who"]
        assert (await client.call_tool("greet", {"who": "Ada"})).content[0].text == "hello Ada"
    await app.close()


@pytest.mark.long
@among(ALL_REVISIONS)
async def test_an_app_and_a_class_serve_the_clients_of_every_release(
    rev: Rev, server: Any, package: ModuleType
) -> None:
    app = package.App("greeting")

    @app.tool
    def greet(who: str) -> str:
        return f"hello {who}"

    module = __import__(f"{package.__name__}.{package.REVISIONS[rev.id]}", fromlist=["Client"])
    for target in (app, server):
        async with package.connect(target, client=module.Client, revisions=[rev.id]) as client:
            (tool,) = (await client.list_tools()).tools
            assert tool.input_schema.required == ["who"]
            assert (await client.call_tool("greet", {"who": "Ada"})).content[0].text == "hello Ada"


@pytest.mark.long
@pytest.mark.parametrize("down", ["2025-11-25", "2026-07-28", "draft"])
@pytest.mark.parametrize("up", ["2025-11-25", "2026-07-28", "draft"])
async def test_a_bridge_passes_calls_by_the_names_of_both_sides(up: str, down: str, package: ModuleType) -> None:
    folder = Path(str(package.__file__)).parent.parent
    (folder / "greeting.py").write_text(SERVER)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    command = ("env", f"PYTHONPATH={path}", sys.executable, str(folder / "greeting.py"), up)
    candidates = Bridge(Target(command=command), package.__name__).candidates()
    module = __import__(f"{package.__name__}.{package.REVISIONS[down]}", fromlist=["Client"])
    async with module.Client(connect_in_memory(candidates)) as client:
        (tool,) = (await client.list_tools()).tools
        assert (tool.parameters if down == "draft" else tool.input_schema).required == ["who"]
        assert (await client.call_tool("greet", {"who": "Ada"})).content[0].text == "hello Ada"
