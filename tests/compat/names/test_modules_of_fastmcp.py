"""What only the package `fastmcp` of products/names has: helpers of tests, decorators, and the checks of templates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import ROOT

pytestmark = pytest.mark.long

for needed in ("hatchling", "httpx2", "uvicorn"):
    pytest.importorskip(needed, reason=f"{needed} is not installed")

PROGRAM = """
import asyncio, logging
import fastmcp
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError, ResourceSecurityError
from fastmcp.prompts import prompt
from fastmcp.resources import ResourceSecurity, resource
from fastmcp.tools import Tool, tool
from fastmcp.tools.function_tool import ToolMeta
from fastmcp.utilities.http import find_available_port
from fastmcp.utilities.tests import asgi_client, asgi_server, run_server_async, temporary_settings
from fastmcp.client import Client

@tool("sum", tags={"numbers"})
def add(a: int, b: int) -> int:
    return a + b

@prompt
def hello(name: str) -> str:
    return f"Hello {name}"

@resource("data://{key}", mime_type="text/csv")
def data(key: str) -> str:
    return key

async def main():
    assert isinstance(add.__fastmcp__, ToolMeta) and add.__fastmcp__.tags == {"numbers"} and add(1, 2) == 3
    assert Tool.from_function(add).name == "sum"
    server = FastMCP("shop")
    server.add_tool(add)
    server.add_prompt(hello)
    server.add_resource(data)
    async with asgi_client(server) as client:
        assert (await client.call_tool("sum", {"a": 1, "b": 2})).data == 3
        assert (await client.read_resource("data://x"))[0].mime_type == "text/csv"
        assert (await client.get_prompt("hello", {"name": "you"})).messages[0].content.text == "Hello you"
    async with asgi_server(server) as running:
        async with running.http_client() as http:
            assert (await http.get("/elsewhere")).status_code == 404
    async with run_server_async(server, port=find_available_port()) as url, Client(url) as client:
        assert client.server_info.name == "shop"
    with temporary_settings(log_level="DEBUG"):
        assert fastmcp.settings.log_level == "DEBUG"
    assert fastmcp.settings.log_level == "INFO"
    security = ResourceSecurity(exempt_params={"git-ref"})
    assert security.validate({"git_ref": "..", "path": "a/b"}) is None
    assert security.validate({"path": ["a", "..", "..", "b"]}) == "path"
    assert ResourceSecurity().validate({"path": "/etc"}) == "path"
    try:
        tool("a", name="b")
    except TypeError as error:
        print("refused", error)

asyncio.run(main())
"""

OF_THE_APP = """
import asyncio
from types import SimpleNamespace
from fastmcp import Client, Context, FastMCP
from fastmcp.client.sampling.handlers.anthropic import AnthropicSamplingHandler
from fastmcp.server.dependencies import CurrentFastMCP, Progress, get_server
from fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware
from fastmcp.server.middleware.logging import StructuredLoggingMiddleware
from fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware
from fastmcp.server.middleware.timing import TimingMiddleware
from fastmcp.server.transforms.search import RegexSearchTransform
from mcp_types import ImageContent, SamplingMessage

asked = []

class Messages:
    async def create(self, **keywords):
        asked.append(keywords)
        block = SimpleNamespace(type="text", text="a cat", model_dump=lambda **_: {"type": "text", "text": "a cat"})
        return SimpleNamespace(model="m", stop_reason="end_turn", content=[block])

middleware = [TimingMiddleware(), ErrorHandlingMiddleware(), StructuredLoggingMiddleware(), RateLimitingMiddleware()]
server = FastMCP("zoo", middleware=middleware)

@server.tool
async def look(ctx: Context, app=CurrentFastMCP(), progress: Progress = Progress()) -> str:
    await progress.set_total(1)
    assert app.name == get_server().name == "zoo"
    image = ImageContent(type="image", data="aGk=", mime_type="image/png")
    return (await ctx.sample([SamplingMessage(role="user", content=image)], max_tokens=7)).text

async def main():
    handler = AnthropicSamplingHandler("claude", client=SimpleNamespace(messages=Messages()))
    async with Client(server, mode="legacy", sampling_handler=handler) as client:
        assert (await client.call_tool("look")).data == "a cat"
    assert asked[0]["max_tokens"] == 7 and asked[0]["messages"][0]["content"][0]["source"]["media_type"] == "image/png"
    async with Client(FastMCP("found", transforms=[RegexSearchTransform()])) as client:
        print(sorted(tool.name for tool in await client.list_tools()))

asyncio.run(main())
"""


def test_what_an_app_has_by_the_same_name_is_there(tmp_path: Path) -> None:
    done = run_program(OF_THE_APP, tmp_path)
    assert done.stdout.strip() == "['call_tool', 'search_tools']", done.stdout + done.stderr


def test_a_program_uses_them(tmp_path: Path) -> None:
    done = run_program(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "refused Cannot specify a name" in done.stdout
    assert "fastmcp.settings.log_level has no effect here" in done.stderr


def run_program(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    sys.path.insert(0, str(ROOT / "products" / "names"))
    try:
        import hatch_build
    finally:
        sys.path.pop(0)
    hatch_build.write(tmp_path / "names", "v2")
    (tmp_path / "program.py").write_text(program)
    path = os.pathsep.join(
        str(item) for item in (tmp_path / "names", *(ROOT / name for name in ("runtime", "products", "generated")))
    )
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
