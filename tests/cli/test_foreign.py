"""Servers of other SDKs by their file, and words that name no server: each command takes and refuses them alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli.commands import mcp_codegen
from support.peers import python_peer

from mcp_codegen.errors import CodegenError
from mcp_codegen.servers.probe import foreign_command, parse_target, project_python

FOREIGN = """from mcp.server.mcpserver import MCPServer

server = MCPServer("shop", version="1.0")


@server.tool()
def price(item: str) -> int:
    \"\"\"Return a price.\"\"\"
    return len(item)
"""
GUARD = '\n\nif __name__ == "__main__":\n    server.run()\n'


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        (FOREIGN + GUARD, "", 2),
        (FOREIGN, "", 5),
        (FOREIGN + GUARD, "server", 5),
        ("from fastmcp import FastMCP\nmcp = FastMCP('a')\nmcp.run()\n", "", 2),
        ("from mcp_generated import App\nfrom mcp import types\napp = App('a')\n", "", 0),
        ("from shop import app\n", "", 0),
        ("this is not Python", "", 0),
    ],
)
def test_a_file_of_another_sdk_is_run_as_a_program(tmp_path: Path, source: str, name: str, words: int) -> None:
    (tmp_path / "server.py").write_text(source)
    assert len(foreign_command(tmp_path / "server.py", name) or ()) == words


def test_the_environment_of_the_project_runs_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    python = tmp_path / ".venv" / "bin" / "python"
    assert project_python(tmp_path / "src" / "server.py") != str(python)
    python.parent.mkdir(parents=True)
    python.touch()
    assert project_python(tmp_path / "src" / "server.py") == str(python)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("127.0.0.1:9", "http://127.0.0.1:9"),
        ("shop.example/mcp", "https://shop.example/mcp"),
        ("git+https://shop.example/a", "one that begins with http:// or https://"),
        ("./server.js", "-- node ./server.js"),
        ("build/index.ts", "-- npx tsx build/index.ts"),
        ("/", "is a folder; pass the file of its server"),
    ],
)
def test_a_word_that_is_no_command_is_told_what_to_pass(word: str, message: str) -> None:
    with pytest.raises(CodegenError) as error:
        parse_target(word)
    assert message in str(error.value)


@pytest.mark.long
@pytest.mark.parametrize("ending", ["", GUARD])
def test_lint_inspect_and_run_take_the_file_of_another_sdk(tmp_path: Path, ending: str) -> None:
    (tmp_path / "server.py").write_text(FOREIGN + ending)
    (tmp_path / ".venv").symlink_to(python_peer("mcp==2.3.0").parent.parent)
    linted = mcp_codegen("lint", "server.py", "--format", "json", folder=tmp_path)
    assert (linted.returncode, linted.stderr) == (0, "")
    assert [(row["server"]["name"], row["tools"]) for row in json.loads(linted.stdout)["servers"]] == [("shop", 1)]
    called = mcp_codegen("call", "server.py", "price", "item=tea", folder=tmp_path)
    assert (called.returncode, called.stdout) == (0, "3\n"), called.stderr
    for words in (("run", "server.py", "--http"), ("dev", "server.py")):
        refused = mcp_codegen(*words, folder=tmp_path)
        assert refused.returncode == 2 and "is a server of another SDK" in refused.stderr
