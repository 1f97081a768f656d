"""`mcp-generated`: its help, the forms in which every command takes a server, and what it says of a mistake."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.authors import COMMANDS, SECTIONS, authors
from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.servers.probe import ServerTarget, is_module, parse_target

SERVER = """
from mcp_generated import App
app = App("forms")

@app.tool()
def add(a: int, b: int) -> int:
    return a + b
"""


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(authors, [str(word) for word in words], prog_name="mcp-generated")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "things.py").write_text(SERVER)
    launch = ["-P", "-m", "mcp_products.tooling.launch", "--", str(tmp_path / "things.py")]
    entry = {"command": sys.executable, "args": launch, "env": {"A": "1"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"forms": entry}}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_command_stands_in_one_section_of_the_help() -> None:
    names = [name for section in SECTIONS.values() for name in section]
    assert sorted(names) == sorted(COMMANDS)
    text = run("--help").output
    places = [text.index(f"{heading}:") for heading in SECTIONS]
    assert places == sorted(places)
    assert text.index("mcp-generated create my-server") < places[0]
    assert [line for line in text.splitlines() if "_MCP_GENERATED_COMPLETE" in line] != []


def test_the_generator_passes_the_commands_of_authors_on_and_lists_its_own() -> None:
    context = click.Context(main)
    for name in COMMANDS:
        assert main.get_command(context, name) is authors.get_command(click.Context(authors), name)
    assert not set(COMMANDS) & set(main.list_commands(context))
    assert "mcp-generated --help" in CliRunner().invoke(main, ["--help"]).output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cal"], "error: there is no command 'cal'; did you mean 'call'?; mcp-generated --help shows its use\n"),
        (["call", "--qq"], "error: No such option '--qq'; mcp-generated call --help shows its use\n"),
        (["call"], "error: no server was named; write call SERVER TOOL NAME=VALUE\n"),
        (["call", "things.py"], "error: things.py: no tool was named; inspect lists its tools\n"),
        (["call", "add", "--"], "error: there is no command after --; write call SERVER TOOL NAME=VALUE\n"),
    ],
)
def test_a_mistake_is_one_line_of_one_form(folder: Path, words: list[str], message: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.output) == (2, message)


@pytest.mark.parametrize("words", [["run"], ["dev"]], ids=" ".join)
@pytest.mark.parametrize("server", ["https://example.com/mcp", "mcp.json:forms"])
def test_what_runs_elsewhere_is_not_run_and_the_bridge_is_named(folder: Path, words: list[str], server: str) -> None:
    result = run(*words, server)
    assert result.exit_code == 2
    assert result.output.endswith(f"to serve it here: bridge {server}\n")


def test_the_same_words_name_a_server_for_every_command(folder: Path) -> None:
    assert parse_target("things.py").command[-1] == "things.py"
    assert parse_target("things.py:app").command[-1] == "things.py:app"
    assert parse_target("things").command[-3:] == ("--module", "--", "things")
    assert parse_target("things:app").command[-3:] == ("--module", "--", "things:app")
    assert parse_target("https://example.com/mcp") == ServerTarget(url="https://example.com/mcp")
    assert parse_target("mcp.json:forms").env == {"A": "1"}
    assert parse_target("python server").command == ("python", "server")
    with pytest.raises(CodegenError, match=r"mcp.json: has no server 'other'; its servers are: forms"):
        parse_target("mcp.json:other")


def test_a_file_or_a_program_is_no_module(folder: Path) -> None:
    (folder / "things.txt").touch()
    assert (is_module("things"), is_module("things.txt"), is_module("sh"), is_module("nothing")) == (
        True,
        False,
        False,
        False,
    )


@pytest.mark.long
def test_a_tool_is_called_in_every_form(folder: Path) -> None:
    launch = [sys.executable, "-P", "-m", "mcp_products.tooling.launch", "--", str(folder / "things.py")]
    for words in (["things.py", "add"], ["things:app", "add"], ["mcp.json:forms", "add"], ["add"]):
        command = ["--", *launch] if len(words) == 1 else []
        result = run("call", *words, "a=1", "b=2", *command)
        assert (result.exit_code, result.output) == (0, "3\n"), words
