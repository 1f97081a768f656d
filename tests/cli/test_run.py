"""`mcp-generated run`: which object of a file is served, over which transport, and what it says where there is none."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli.commands import INSTALLED, LIMIT, command_line, listening, mcp_codegen
from support.clients import connect
from support.peers import node_peer
from support.processes import free_port

from mcp_codegen.servers.contract import server_identity

SERVER = '''
import os, sys
from mcp_generated import App

print("printed while it is loaded")
NAME = App("named", version="2.0")


@NAME.tool()
def where() -> str:
    """Return what the process was started with."""
    return repr((sys.argv[1:], os.environ.get("KEY"), os.environ.get("OTHER"), __name__))
'''


def served(*words: str | Path, call: bool = False) -> tuple[str, str]:
    """The name of the server that `run` serves over stdio, and the text of its tool `where`, if that is called."""

    async def main() -> tuple[str, str]:
        async with connect(command_line("run", *words), env=INSTALLED) as client:
            text = str((await client.call_tool("where")).content[0].text) if call else ""  # type: ignore[union-attr]
            assert client.server is not None
            name = server_identity(client.server.model_dump())["name"]
            assert isinstance(name, str)
            return name, text

    return asyncio.run(main())


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_only_server_is_served_with_its_arguments_and_variables(tmp_path: Path) -> None:
    file = write(tmp_path / "my server.py", SERVER)
    variables = write(tmp_path / ".env", "# a comment\nexport KEY='a b' # quoted\nOTHER=from the file\n")
    words = ("--env-file", variables, "--env", "OTHER=c=d", file, "--", "--database", "x.db")
    name, text = served(*words, call=True)
    assert (name, text) == ("named", repr((["--database", "x.db"], "a b", "c=d", "__mcp_server__")))


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "suffix", "name"),
    [
        ("first, second = App('first'), App('second')", ":second", "second"),
        ("other, mcp = App('other'), App('usual')", "", "usual"),
        ("app = same = App('one')", "", "one"),
        ("def build():\n    return App('built')", ":build", "built"),
        ("async def build():\n    return App('awaited')", ":build", "awaited"),
        ("App('at the end').run()", "", "at the end"),
        ("server = App('guarded')\nif __name__ == '__main__':\n    raise SystemExit(3)", "", "guarded"),
        ("app = App('served').server", "", "served"),
    ],
    ids=["named", "usual-name", "two-names", "factory", "async-factory", "runs-itself", "guarded", "server-object"],
)
def test_the_server_of_a_file_is_found(tmp_path: Path, text: str, suffix: str, name: str) -> None:
    file = write(tmp_path / "things.py", f"from mcp_generated import App\n{text}\n")
    assert served(f"{file}{suffix}")[0] == name


def test_a_file_of_a_package_may_import_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "pack" / "__init__.py", "")
    write(tmp_path / "pack" / "title.py", "TITLE = 'relative'")
    file = write(
        tmp_path / "pack" / "main.py", "from mcp_generated import App\nfrom .title import TITLE\nx = App(TITLE)"
    )
    assert served(file)[0] == "relative"


@pytest.mark.long
def test_a_module_is_run_by_its_name(tmp_path: Path) -> None:
    write(tmp_path / "pack" / "__init__.py", "")
    write(tmp_path / "pack" / "main.py", "from mcp_generated import App\na, b = App('a'), App('b')")
    done = mcp_codegen("run", "-m", "pack.main", folder=tmp_path)
    assert done.returncode == 2 and "has 2 servers (a, b); name one: pack.main:a" in done.stderr
    done = mcp_codegen("run", "-m", "pack.main:b", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    done = mcp_codegen("run", "-m", "pack.missing", folder=tmp_path)
    assert done.returncode == 2 and "there is no module 'pack.missing' here" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "suffix", "message"),
    [
        ("", "", "has no App or Server object at its top level; add one: app = App(...)"),
        ("a, b = App('a'), App('b')", "", "has 2 servers (a, b); name one"),
        ("a = App('a')", ":b", "the module has no 'b'; its servers are: a"),
        ("a = 3", ":a", "'a' is not a server but 3"),
        (
            "from mcp_generated.v2025_03_26 import Server\nclass Echo(Server): ...",
            "",
            'has the class Echo, but no object of it; add the line: app = Echo(name="echo", version="1.0")',
        ),
    ],
    ids=["nothing", "several", "unknown-name", "no-server", "a-class"],
)
def test_a_file_without_one_server_is_one_line(tmp_path: Path, text: str, suffix: str, message: str) -> None:
    file = write(tmp_path / "things.py", f"from mcp_generated import App\n{text}\n")
    done = mcp_codegen("run", f"{file}{suffix}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no server was named"),
        (["missing.py"], "missing.py: this file does not exist"),
        (["server.txt"], "server.txt: is not a Python file"),
        (["server.py", "--port", "1"], "--port: only for HTTP; add --http"),
        (["server.py", "--http", "--transport", "stdio"], "exclude each other"),
        (["server.py", "--env", "KEY"], "--env takes NAME=VALUE, not 'KEY'"),
        (["server.py", "--env-file", "bad.env"], "bad.env, line 2: is not NAME=VALUE"),
    ],
    ids=["nothing", "missing", "suffix", "port", "transports", "env", "env-file"],
)
def test_wrong_use_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    write(tmp_path / "server.py", SERVER)
    write(tmp_path / "server.txt", "")
    write(tmp_path / "bad.env", "A=1\nno sign\n")
    done = mcp_codegen("run", *words, folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.long
def test_an_error_of_the_file_shows_its_own_lines_only(tmp_path: Path) -> None:
    file = write(tmp_path / "broken.py", "def inner():\n    raise RuntimeError('no database')\n\ninner()\n")
    done = mcp_codegen("run", file)
    assert done.returncode == 1 and "RuntimeError: no database" in done.stderr
    assert re.findall(r'File "([^"]+)"', done.stderr) == [str(file), str(file)]
    file = write(tmp_path / "syntax.py", "x = = 1\n")
    done = mcp_codegen("run", file)
    assert done.returncode == 1 and re.findall(r'File "([^"]+)"', done.stderr) == [str(file)]


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM for a process")
def test_it_serves_over_http_and_ends_with_a_signal(tmp_path: Path) -> None:
    async def call(url: str) -> str:
        async with connect(url) as client:
            return str((await client.call_tool("where")).content[0].text)  # type: ignore[union-attr]

    file = write(tmp_path / "server.py", SERVER)
    port = free_port()
    words = (file, "--http", "--port", str(port), "--path", "/here")
    with listening(command_line("run", *words), port) as process:
        assert asyncio.run(call(f"http://127.0.0.1:{port}/here")) == repr(([], None, None, "server"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) in (0, -signal.SIGTERM)
        assert process.stderr is not None and "Traceback" not in process.stderr.read()


@pytest.mark.exhaustive
def test_the_command_line_of_the_inspector_lists_and_calls_its_tools(tmp_path: Path) -> None:
    folder = node_peer("@modelcontextprotocol/inspector@2.12.0")
    file = write(tmp_path / "server.py", SERVER)

    def inspected(*options: str) -> dict[str, object]:
        name = "@modelcontextprotocol/inspector"
        server = ["-e", f"PYTHONPATH={INSTALLED['PYTHONPATH']}", *command_line("run", file)]
        done = subprocess.run(
            ["npx", "--no", "--", name, "--cli", *server, "--method", *options],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    tools = inspected("tools/list")["tools"]
    assert isinstance(tools, list) and [tool["name"] for tool in tools] == ["where"]
    content = inspected("tools/call", "--tool-name", "where")["content"]
    assert content == [{"type": "text", "text": repr(([], None, None, "server"))}]


@pytest.mark.long
def test_the_interpreter_of_the_command_runs_the_server(tmp_path: Path) -> None:
    file = write(tmp_path / "server.py", f"{SERVER}\nassert sys.executable == {sys.executable!r}\n")
    done = mcp_codegen("run", file)
    assert (done.returncode, done.stdout) == (0, "") and "printed while it is loaded" in done.stderr
