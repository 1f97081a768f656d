"""The complete Python programs of the documents that the project was made from run with their import lines changed.

tests/app/test_tutorial.py runs the weather server, whose blocks belong together.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from compat.programs.official_examples import Failure, load, our_interpreter
from compat.programs.other_programs import document_programs
from starlette.responses import Response
from support.http.sockets import listening
from support.official.imports import rewrite
from support.project import ROOT

from mcp_generated.compat import ClientSession, sse_client, types

SEEDS = Path(os.environ.get("MCP_SEEDS", ROOT.parent / "shared" / "seeds"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SEEDS.is_dir(), reason=f"the seed documents are not in {SEEDS}"),
]

SERVER = """
import sys
sys.path[:0] = {path!r}
from mcp_generated import App
app = App("weather")
@app.tool
def forecast(city: str) -> str:
    return f"sun in {{city}}"
app.run()
"""
# A provider's package whose model first calls the tool, then says what it has returned.
PROVIDER = """
class Item:
    def __init__(self, **fields):
        vars(self).update(fields)
class Anthropic:
    @property
    def messages(self):
        return self
    def create(self, model, max_tokens, messages, tools=()):
        if len(messages) == 1:
            assert tools[0]["name"] == "forecast", tools
            return Item(content=[Item(type="tool_use", name="forecast", input={"city": "Rome"}, id="1")])
        return Item(content=[Item(type="text", text=str(messages[-1]["content"]))])
"""


def programs() -> dict[str, str]:
    """Return the programs by name; one that stands in two documents once."""
    names = {source: name for name, source in document_programs(SEEDS)} if SEEDS.is_dir() else {}
    return {name: source for source, name in names.items()}


def runnable(source: str) -> str:
    """Return a program with the import of `Server`, which stands in an earlier block of its document."""
    uses_server = "Server(" in source and not re.search(r"import .*\bServer\b", source)
    return f"from mcp.server import Server\n{source}" if "SseServerTransport" in source and uses_server else source


@pytest.mark.parametrize("name", programs())
def test_a_program_of_a_document_loads(name: str, tmp_path: Path) -> None:
    source = runnable(programs()[name])
    program = tmp_path / "program.py"
    program.write_text(rewrite(source, old=True))
    try:
        assert load(our_interpreter(), program) == {}
    except Failure as failure:
        pytest.fail(f"{name}: {failure}")


async def test_the_server_with_sse_of_a_document_serves_a_client() -> None:
    """Starlette calls functions with a request, so that its routes do not serve on any SDK: here a router does."""
    source = next(source for source in programs().values() if "SseServerTransport" in source)
    program: dict[str, Any] = {}
    exec(rewrite(runnable(source), old=True), program)
    routes = {route.path: route for route in program["starlette_app"].routes}

    @program["app"].list_tools()  # type: ignore[untyped-decorator]
    async def list_tools() -> list[types.Tool]:
        return [types.Tool(name="forecast", inputSchema={"type": "object"})]

    class Router:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            route = routes[scope["path"]]
            if scope["method"] in route.methods:
                await route.endpoint(scope, receive, send)
            else:
                await Response(status_code=405)(scope, receive, send)

        async def close(self) -> None:
            """End: the connection has ended with its client."""

    async with listening(Router()) as port, sse_client(f"http://127.0.0.1:{port}/sse") as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            assert [tool.name for tool in (await session.list_tools()).tools] == ["forecast"]


def test_the_documents_have_both_kinds_of_servers() -> None:
    sources = "".join(programs().values())
    assert re.search(r"\bFastMCP\(", sources)
    assert re.search(r"\bServer\(", sources)


def client_program() -> str:
    """Return the chat client of the documents, its blocks put together."""
    [document] = SEEDS.glob("002_*.txt")
    blocks = re.findall(r"^([ \t]*)```python[^\n]*\n(.*?)^\1```", document.read_text(), re.MULTILINE | re.DOTALL)
    first, *methods, last = (textwrap.dedent(block) for _, block in blocks)
    inside = "\n".join(textwrap.indent(method, "    ") for method in methods)
    return f"{first}\n{inside}\n{last}"


def test_the_chat_client_of_a_document_calls_a_tool(tmp_path: Path) -> None:
    program = client_program()
    assert [line for line in program.splitlines() if "async def" in line][-1] == "async def main():"
    (tmp_path / "client.py").write_text(rewrite(program, old=True))
    (tmp_path / "server.py").write_text(SERVER.format(path=[*filter(None, sys.path)]))
    (tmp_path / "anthropic.py").write_text(PROVIDER)
    (tmp_path / "dotenv.py").write_text("def load_dotenv():\n    pass\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**our_interpreter().env, "PATH": path}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env["PYTHONPATH"]])
    process = subprocess.run(
        [sys.executable, "client.py", "server.py"],
        cwd=tmp_path,
        env=env,
        input="How is the weather?\nquit\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    assert "Connected to server with tools: ['forecast']" in process.stdout
    assert "sun in Rome" in process.stdout
