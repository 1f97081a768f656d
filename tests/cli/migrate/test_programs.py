"""Programs of each SDK after their migration: their tools and answers are those that the program says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from support.cli.commands import INSTALLED, LIMIT, mcp_codegen

pytest.importorskip("libcst", reason="libcst is not installed")

from mcp_generated.compat import Context

TOOL: Final = '''
@server.tool()
def price(item: str, count: int = 1) -> float:
    """Return the price."""
    return {"tea": 2.5}[item] * count


if __name__ == "__main__":
    server.run()
'''
PROGRAMS: Final = {
    "mcp 1.x": "from mcp.server.fastmcp import FastMCP\n\nserver = FastMCP('shop')\n" + TOOL,
    "mcp 2.x": "from mcp.server.mcpserver import MCPServer\n\nserver = MCPServer('shop')\n" + TOOL,
    "FastMCP": "from fastmcp import FastMCP\n\nserver = FastMCP('shop', on_duplicate='error')\n" + TOOL,
    "low level": """
import asyncio
import mcp.server.stdio
import mcp.types as types
from mcp.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions

server = Server("shop")
COUNT = {"default": 1, "title": "Count", "type": "integer"}
ITEM = {"title": "Item", "type": "string"}


@server.list_tools()
async def tools() -> list[types.Tool]:
    schema = {"type": "object", "properties": {"item": ITEM, "count": COUNT}, "required": ["item"]}
    return [types.Tool(name="price", description="Return the price.", inputSchema=schema)]


@server.call_tool()
async def call(name: str, arguments: dict) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=str({"tea": 2.5}[arguments["item"]] * arguments.get("count", 1)))]


async def main() -> None:
    async with mcp.server.stdio.stdio_server() as (read, write):
        declared = server.get_capabilities(NotificationOptions(), {})
        options = InitializationOptions(server_name="shop", server_version="1", capabilities=declared)
        await server.run(read, write, options)


asyncio.run(main())
""",
}
CALLS: Final = ({"item": "tea"}, {"item": "tea", "count": 3}, {"item": "milk"}, {})
# By the program: the price, three of them, a key that is not there, and an argument that is missing.
ANSWERS: Final = (("2.5", False), ("7.5", False), ("milk", True), ("item", True))


def asked(path: Path) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
    """The only tool of a server over stdio, and the text and the flag of each call: messages as a host writes them."""
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": params},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
    ]
    messages += [
        {"id": 2 + index, "method": "tools/call", "params": {"name": "price", "arguments": arguments}}
        for index, arguments in enumerate(CALLS)
    ]
    found: dict[int, Any] = {}
    words = [sys.executable, str(path)]
    with subprocess.Popen(words, env=INSTALLED, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
            while "id" in message and message["id"] not in found:
                line = server.stdout.readline()
                assert line, "the server has ended"
                answer = json.loads(line)
                if "result" in answer:
                    found[answer["id"]] = answer["result"]
        server.stdin.close()
        server.wait(LIMIT)
    [tool] = found[1]["tools"]
    answers = [found[2 + index] for index in range(len(CALLS))]
    return tool, [(answer["content"][0]["text"], answer.get("isError", False)) for answer in answers]


@pytest.mark.long
@pytest.mark.parametrize("goal", ["compat", "app"])
@pytest.mark.parametrize("sdk", PROGRAMS)
def test_a_program_answers_as_it_says_after_its_migration(sdk: str, goal: str, tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text(PROGRAMS[sdk])
    done = mcp_codegen("migrate", path, "--write", "--to", goal)
    assert done.returncode == 0, done.stderr
    tool, answers = asked(path)
    assert (tool["name"], tool["description"]) == ("price", "Return the price.")
    properties = tool["inputSchema"]["properties"]
    assert {name: row["type"] for name, row in properties.items()} == {"item": "string", "count": "integer"}
    assert (properties["count"]["default"], tool["inputSchema"]["required"]) == (1, ["item"])
    for (text, is_error), (expected, expected_error) in zip(answers, ANSWERS, strict=True):
        if (sdk, goal, expected) == ("mcp 2.x", "compat", "milk"):
            expected = "Error executing tool price"  # 2.x does not show the text of an exception.
        assert (expected in text, is_error) == (True, expected_error)


@pytest.mark.long
def test_a_server_of_many_tools_lists_them_at_once() -> None:
    program = (
        "import asyncio, json, sys\nfrom mcp_generated.compat import FastMCP, Client\nserver = FastMCP('x')\n"
        "for index in range(60):\n    server.add_tool(lambda: 1, f't{index}')\n"
        "async def main():\n    async with Client(server) as client:\n"
        "        page = await client.list_tools()\n        print(len(page.tools), page.next_cursor)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=INSTALLED, capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "60 None\n", done.stderr


def test_a_test_makes_a_context_without_a_request() -> None:
    class Quiet(Context):
        async def info(self, message: object, **fields: object) -> None:
            pass

    assert isinstance(Quiet(), Context) and isinstance(Context(), Context)
