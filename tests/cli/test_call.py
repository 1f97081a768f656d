"""`mcp-generated call` and `inspect server.py`: values by the tool's schema, what is printed, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.cli.commands import INSTALLED, command_line

from mcp_codegen.cli.main import main

SERVER = '''
import os
from typing import Any, Literal
from mcp_generated import App

app = App("calc", version="3.1", instructions="Add things.")


@app.tool()
def show(number: float = 0, text: str = "", flag: bool = False, items: list[int] = [], maybe: str | None = None,
         either: int | str = 0, choice: Literal["1", "2"] = "1", anything: Any = None) -> str:
    """Show the values."""
    return repr((number, text, flag, items, maybe, either, choice, anything))


@app.tool()
def fail() -> str:
    """Fail."""
    from mcp_generated import ToolError
    raise ToolError("it failed")


@app.tool()
def key() -> str:
    """Return a variable."""
    return str(os.environ.get("KEY"))
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("server") / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", INSTALLED["PYTHONPATH"])


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.long
def test_values_have_the_types_of_the_schema(file: Path) -> None:
    words = (
        "number=5",
        "text=5",
        "flag=true",
        "items=[1, 2]",
        "maybe=null",
        "either=7",
        "choice=2",
        'anything={"a": 1}',
    )
    done = run("call", file, "show", *words)
    assert (done.exit_code, done.stdout) == (0, repr((5.0, "5", True, [1, 2], None, 7, "2", {"a": 1})) + "\n")


@pytest.mark.long
def test_a_text_may_be_empty_quoted_or_have_signs(file: Path) -> None:
    done = run("call", file, "show", "text=a=b", "maybe=", "either=x", 'anything="5"')
    assert (done.exit_code, done.stdout) == (0, repr((0, "a=b", False, [], "", "x", "1", "5")) + "\n")


@pytest.mark.long
def test_arguments_may_be_one_json_object(file: Path) -> None:
    done = run("call", file, "show", "--arguments", '{"text": "5", "either": "7"}')
    assert (done.exit_code, done.stdout) == (0, repr((0, "5", False, [], None, "7", "1", None)) + "\n")


@pytest.mark.long
def test_a_command_is_a_target_too_and_variables_reach_it(file: Path) -> None:
    words = [f"'{word}'" for word in command_line("run", file)]
    done = run("call", " ".join(words), "key", "--env", f"PYTHONPATH={INSTALLED['PYTHONPATH']}", "--env", "KEY=secret")
    assert (done.exit_code, done.stdout) == (0, "secret\n")
    assert run("call", file, "key", "--env", "KEY=secret").stdout == "secret\n"


@pytest.mark.long
def test_an_error_of_the_tool_is_exit_code_1(file: Path) -> None:
    done = run("call", file, "fail")
    assert done.exit_code == 1 and "it failed" in done.stdout
    done = run("call", file, "fail", "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["isError"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(("shwo",), "the server has no tool 'shwo'; did you mean 'show'?", marks=pytest.mark.long),
        (("show", "text"), "takes NAME=VALUE, not 'text'"),
        (("show", "text=a", "--arguments", "{}"), "exclude each other"),
        (("show", "--arguments", "[1]"), "must be a JSON object"),
        (("show", "--arguments", "{"), "--arguments is not JSON"),
    ],
    ids=["tool", "sign", "both", "list", "json"],
)
def test_wrong_use_is_one_line_and_exit_code_2(file: Path, words: tuple[str, ...], message: str) -> None:
    done = run("call", file, *words)
    assert done.exit_code == 2 and message in done.output and done.output.count("\n") == 1


def test_a_file_that_does_not_exist_is_named() -> None:
    for command in (("call", "missing.py", "x"), ("inspect", "missing.py"), ("lock", "--from", "missing.py")):
        done = run(*command)
        assert done.exit_code == 2 and done.output.startswith("error: missing.py: this file does not exist")


@pytest.mark.long
def test_inspecting_a_file_shows_its_name_and_tables(file: Path) -> None:
    done = run("inspect", file)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("calc 3.1 (revision ") and "Add things." in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["tools", "arguments", "description"] in rows and ["fail", "Fail."] in rows
    assert "\x1b" not in done.stdout
    listed = json.loads(run("inspect", file, "--json").stdout)
    assert [tool["name"] for tool in listed["tools"]] == ["show", "fail", "key"]


@pytest.mark.long
def test_one_of_several_servers_is_inspected_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text("from mcp_generated import App\nfirst, second = App('one'), App('two')\n")
    assert run("inspect", f"{path}:second").stdout.startswith("two ")
    done = run("inspect", path)
    assert done.exit_code == 2 and "has 2 servers (first, second); name one" in done.output
