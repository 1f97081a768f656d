"""`mcp-codegen generate-cli`, whose program calls tools, and `mcp-generated discover`, which lists servers of hosts."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.cli.commands import INSTALLED

from mcp_codegen.cli.main import main
from mcp_codegen.paths import template_folders
from mcp_codegen.servers.contract import read_contract
from mcp_codegen.servers.hosts import HOSTS
from mcp_codegen.servers.probe import ServerTarget
from mcp_codegen.servers.wrappers import tool_command

SERVER = """
import os
from typing import Literal
from mcp_generated import App, ToolError
app = App("commands", coerce=False)

@app.tool(description='''Join. 100 % of "the" \\\\ words \"\"\" + __import__('os').abort()''')
def join(words: list[str], times: int = 1, loud: bool = False, mode: Literal["a", "b"] = "a") -> str:
    text = " ".join(words * times) + mode
    return text.upper() if loud else text

@app.tool
def nested(value: dict[str, int]) -> dict[str, int]:
    return value

@app.tool
def fail() -> None:
    raise ToolError("it failed")

@app.tool("odd-name", input_schema={"type": "object", "properties": {"--help": {"type": "string"}, "a b": {}}})
def odd(arguments: dict) -> str:
    return str(sorted(arguments))
"""


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a server in a file."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "server.py").write_text(SERVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", INSTALLED["PYTHONPATH"])
        result = run("generate-cli", "--from", folder / "server.py", "--output", folder / "program.py")
    assert result.exit_code == 0, result.output
    assert "4 tools" in result.output
    assert f"python {folder / 'program.py'} --help" in result.output
    return folder / "program.py"


def called(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(program), *words], env=INSTALLED, capture_output=True, text=True, timeout=60
    )


@pytest.mark.edges("words0", "words4")
@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "output", "code"),
    [
        (("join", "--words", "x", "--words", "y"), "x ya\n", 0),
        (("join", "--words", "x", "--times", "2", "--loud", "--mode", "b"), "X XB\n", 0),
        (("join", "--arguments", '{"words": ["x"]}', "--no-loud"), "xa\n", 0),
        (("nested", "--value", '{"a": 1}'), '{\n  "a": 1\n}\n', 0),
        (("fail",), "it failed\n", 1),
        (("odd-name", "--arguments", '{"--help": "x", "a b": 1}'), "['--help', 'a b']\n", 0),
    ],
)
def test_the_program_calls_a_tool(program: Path, words: tuple[str, ...], output: str, code: int) -> None:
    done = called(program, *words)
    assert (done.stdout, done.returncode) == (output, code), done.stderr


@pytest.mark.long
def test_the_program_prints_json_and_refuses_wrong_words(program: Path) -> None:
    done = called(program, "--json", "nested", "--value", '{"a": 1}')
    assert json.loads(done.stdout)["structuredContent"] == {"a": 1}
    for words, text in [
        (("join", "--times", "x"), "invalid int value"),
        (("join", "--mode", "c"), "invalid choice"),
        (("missing",), "invalid choice"),
    ]:
        done = called(program, *words)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    assert "Join. 100 % of" in called(program, "join", "--help").stdout


@pytest.mark.long
def test_text_of_a_server_is_only_in_literals(program: Path) -> None:
    tree = ast.parse(program.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "__import__" not in names
    assert "abort" not in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


PROPERTIES = {
    "name": {"type": ["string", "null"]},
    "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "tags": {"anyOf": [{"type": "array", "items": {"type": ["null", "string"]}}, {"type": "null"}]},
    "mixed": {"type": ["string", "integer"]},
    "cache": {"type": "boolean"},
    "no-cache": {"type": "boolean"},
    "no-color": {"type": "boolean"},
    "any": True,
}


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--name", "5"), {"name": "5"}),
        (("--limit", "5"), {"limit": 5}),
        (("--tags", "a", "--tags", "b"), {"tags": ["a", "b"]}),
        (("--mixed", '"5"'), {"mixed": "5"}),
        (("--no-cache", "true", "--cache", "false"), {"no-cache": True, "cache": False}),
        (("--no-color", "true"), {"no-color": True}),
        (("--any", "[1]"), {"any": [1]}),
    ],
)
def test_the_program_has_an_option_for_each_type(words: tuple[str, ...], given: dict[str, object]) -> None:
    contract = read_contract({"tools": [{"name": "find", "inputSchema": {"properties": PROPERTIES}}]}, "a server")
    names: dict[str, Any] = {"__name__": "program"}
    text = tool_command(contract, ServerTarget(("start",)), "start", template_folders())
    exec(compile(text, "program", "exec"), names)
    parsed = vars(names["parser_of_tools"]().parse_args(["find", *words]))
    prefix = "argument "
    assert given == {
        name.removeprefix(prefix): value
        for name, value in parsed.items()
        if name.startswith(prefix) and value is not None
    }


@pytest.mark.long
def test_the_program_of_a_file_runs_in_every_folder_and_its_types_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "server.py").write_text(SERVER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", INSTALLED["PYTHONPATH"])
    assert run("generate-cli", "--from", "server.py", "--output", "program.py").exit_code == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert called(tmp_path / "program.py", "fail").stdout == "it failed\n"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", tmp_path / "program.py"],
        env=INSTALLED,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


def test_a_saved_list_that_is_not_there_is_named() -> None:
    assert "lists.json: this file does not exist" in run("tools", "--from", "lists.json").output


def test_a_saved_list_cannot_be_called(tmp_path: Path) -> None:
    saved = tmp_path / "list.json"
    saved.write_text('{"tools": []}')
    result = run("generate-cli", "--from", saved)
    assert result.exit_code == 2
    assert "which cannot be called" in result.output


@pytest.mark.long
def test_the_values_of_variables_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER + "\napp.run()\n")
    entry = {
        "command": sys.executable,
        "args": [str(tmp_path / "server.py")],
        "env": {"SECRET_KEY": "s3cret", "PYTHONPATH": INSTALLED["PYTHONPATH"]},
    }
    (tmp_path / "config.json").write_text(json.dumps({"mcpServers": {"mine": entry}}))
    output = tmp_path / "program.py"
    result = run("generate-cli", "--config", tmp_path / "config.json", "--server", "mine", "--output", output)
    assert result.exit_code == 0, result.output
    assert "s3cret" not in output.read_text()
    done = called(output, "fail")
    assert done.returncode == 2
    assert "set the variables of the server first: SECRET_KEY" in done.stderr


# ---- discover --------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder; the current folder is a project in it."""
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CLAUDE_CONFIG_DIR", "USERPROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project" / "server.py").write_text(SERVER)
    return tmp_path


def rows(*words: str) -> Any:
    result = run("discover", "--json", *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("host", HOSTS)
def test_what_install_writes_discover_lists(home: Path, host: str) -> None:
    assert run("discover").output.startswith("no servers")
    result = run("install", "server.py", "--host", host, "--name", "mine", "--env", "KEY=s3cret")
    assert result.exit_code == 0, result.output
    [row] = rows()
    assert (row["host"], row["name"], row["variables"]) == (host, "mine", row["variables"])
    assert "KEY" in row["variables"]
    assert row["command"][-1].endswith("server.py")
    assert row["file"] == str(HOSTS[host].path("user", home / "project"))
    text = run("discover").output
    assert "mine" in text
    assert "s3cret" not in text


def test_servers_of_the_project_and_with_urls_are_listed_and_hosts_can_be_chosen(home: Path) -> None:
    (home / "project" / ".mcp.json").write_text('{"mcpServers": {"web": {"type": "http", "url": "https://x.example"}}}')
    assert [(row["name"], row["command"]) for row in rows()] == [("web", ["https://x.example"])]
    assert rows("--host", "cursor") == []
    assert run("discover", "--host", "nobody").exit_code == 2


def test_a_broken_file_is_named_and_the_others_are_listed(home: Path) -> None:
    (home / ".claude.json").write_text("{")
    (home / "project" / ".mcp.json").write_text('{"mcpServers": {"web": {"url": "https://x.example"}}}')
    result = run("discover")
    assert result.exit_code == 0
    assert ".claude.json" in result.stderr
    assert "web" in result.stdout
