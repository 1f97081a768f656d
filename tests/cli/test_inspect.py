"""`mcp-generated config` and `inspect` as commands: what they write, refuse and show of a server."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.project import ROOT

from mcp_codegen.cli.main import main
from mcp_codegen.output import plain
from mcp_codegen.servers.hosts import default_config_path

EVERYTHING = str(ROOT / "examples" / "everything" / "server.py")
NOWHERE = os.path.abspath("/no/such/folder")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def added(file: Path, *words: str) -> dict[str, Any]:
    done = run("config", "add", "--file", str(file), *words)
    assert done.exit_code == 0, done.output
    entry: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    return entry


def test_adding_makes_paths_absolute_and_keeps_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.json"
    other = {"theme": "dark", "mcpServers": {"other": {"command": "/bin/true"}, "mine": {"command": "x", "off": True}}}
    file.write_text(json.dumps(other))
    (tmp_path / "server.py").write_text("")
    monkeypatch.chdir(tmp_path)
    servers = added(file, "--env", "KEY=a=b", "mine", "--", sys.executable, "server.py", "stdio", "--port", "1")
    arguments = [str(tmp_path / "server.py"), "stdio", "--port", "1"]
    assert servers["mine"] == {"command": sys.executable, "args": arguments, "env": {"KEY": "a=b"}, "off": True}
    assert servers["other"] == {"command": "/bin/true"}
    assert json.loads(file.read_text())["theme"] == "dark"
    assert [path.name for path in tmp_path.glob("*config*")] == ["config.json"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_new_configuration_is_for_its_owner_alone_and_an_older_one_keeps_its_mode(tmp_path: Path) -> None:
    new, old = tmp_path / "deep" / "config.json", tmp_path / "old.json"
    added(new, "one", "--", sys.executable)
    old.write_text("{}")
    old.chmod(0o644)
    added(old, "one", "--", sys.executable)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (new, old)] == [0o600, 0o644]


@pytest.mark.skipif(os.name == "nt", reason="a link needs a privilege on Windows")
def test_a_configuration_that_is_a_link_is_refused_with_the_path_of_the_file(tmp_path: Path) -> None:
    file, link = tmp_path / "config.json", tmp_path / "link.json"
    added(file, "one", "--", sys.executable)
    link.symlink_to(file)
    done = run("config", "add", "--file", str(link), "two", "--", sys.executable)
    assert done.exit_code == 2 and f"is a link to {file}" in done.output.replace("\n", " ")
    assert link.is_symlink() and set(json.loads(file.read_text())["mcpServers"]) == {"one"}
    assert set(added(file, "two", "--", sys.executable)) == {"one", "two"}


@pytest.mark.parametrize("before", ["{", "[]", '{"mcpServers": []}'])
def test_what_cannot_be_understood_is_left_alone(tmp_path: Path, before: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(before)
    done = run("config", "add", "--file", str(file), "one", "--", sys.executable)
    assert done.exit_code == 2 and done.output.startswith("error: ") and file.read_text() == before


def test_a_command_that_does_not_exist_is_not_added(tmp_path: Path) -> None:
    done = run("config", "add", "--file", str(tmp_path / "c.json"), "one", "--", "no-such-program-at-all")
    assert done.exit_code == 2 and "no-such-program-at-all" in done.output and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"args": []}, "'command' is missing"),
        ({"command": "no-such-program-at-all"}, "not found"),
        ({"command": "./server"}, "relative path"),
        ({"command": f"{NOWHERE}/program"}, "does not exist"),
        ({"command": sys.executable, "args": ["server.py"]}, "relative path 'server.py'"),
        ({"command": sys.executable, "args": [f"{NOWHERE}/server.py"]}, "which does not exist"),
        ({"command": sys.executable, "args": "server.py"}, "'args' must be a list"),
        ({"command": sys.executable, "env": {"PORT": 1}}, "numbers need quotes"),
        (1, "is not an object"),
    ],
)
def test_checking_says_what_is_wrong_with_an_entry(tmp_path: Path, entry: object, problem: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry}}))
    done = run("config", "check", "--file", str(file))
    assert done.exit_code == 1 and "one: " in done.output and problem in done.output
    file.write_text(
        json.dumps({"mcpServers": {"one": {"command": sys.executable, "args": ["-m", "x", "https://a.py"]}}})
    )
    assert run("config", "check", "--file", str(file)).exit_code == 0


def test_broken_json_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{\n"mcpServers": {},\n}')
    done = run("config", "check", "--file", str(file))
    assert done.exit_code == 2 and ("line 3" in done.output or "line 2" in done.output)  # Newer Pythons see the comma.


def test_showing_hides_the_values_of_variables(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    added(file, "--env", "API_KEY=very-secret", "one", "--", sys.executable)
    for words in ([], ["--json"]):
        done = run("config", "show", "--file", str(file), *words)
        assert done.exit_code == 0 and "API_KEY" in done.output and "very-secret" not in done.output


@pytest.mark.parametrize(
    ("platform", "environment", "place"),
    [
        ("darwin", {"HOME": "/u"}, "/u/Library/Application Support/Claude/claude_desktop_config.json"),
        ("linux", {"HOME": "/u"}, "/u/.config/Claude/claude_desktop_config.json"),
        ("win32", {"HOME": "/u", "APPDATA": "/u/Roaming"}, "/u/Roaming/Claude/claude_desktop_config.json"),
    ],
)
def test_each_platform_has_its_place(platform: str, environment: dict[str, str], place: str) -> None:
    assert default_config_path(platform, environment).as_posix() == place


@pytest.mark.long
def test_inspecting_lists_all_that_a_server_of_a_configuration_offers(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    added(file, "all", "--", sys.executable, EVERYTHING)
    done = run("inspect", "--config", str(file), "--server", "all")
    assert done.exit_code == 0, done.output
    for shown in ("statistics", "demo://status", "demo://number/{n}", "city [country] [style]"):
        assert shown in done.output


@pytest.mark.long
def test_inspecting_calls_a_tool_and_shows_what_the_server_tells_meanwhile() -> None:
    words = ("--tool", "log_something", "--arg", "level=warning", "--arg", "text=careful", "--json")
    done = run("inspect", *words, "--", sys.executable, EVERYTHING)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert answer["called"]["content"][0]["type"] == "text"
    [message] = [notification["on_logging_message"] for notification in answer["notifications"]]
    assert (message["level"], message["data"]) == ("warning", {"text": "careful"})


@pytest.mark.long
def test_inspecting_shows_the_text_and_the_structured_content_of_a_call() -> None:
    script = "from mcp_generated import App\napp = App('x')\n@app.tool\ndef sum(a: int, b: int) -> dict[str, int]:\n"
    script += "    return {'the sum': a + b}\n@app.tool(structured_output=False)\n"
    script += "def text() -> str:\n    return 'x'\napp.run()"
    called = run("inspect", "--tool", "sum", "--arg", "a=1", "--arg", "b=2", "--", sys.executable, "-c", script)
    assert called.exit_code == 0 and called.output.rstrip().endswith('{\n  "the sum": 3\n}'), called.output
    assert called.output.count("the sum") == 2, "the text, and the structured content below it"
    without = run("inspect", "--tool", "text", "--", sys.executable, "-c", script)
    assert without.exit_code == 0 and "{" not in without.output


@pytest.mark.long
def test_inspecting_reads_a_resource_gets_a_prompt_and_tells_of_failure() -> None:
    server = ("--", sys.executable, EVERYTHING)
    read = run("inspect", "--read", "demo://text", *server)
    assert read.exit_code == 0 and read.output.strip()
    prompt = run("inspect", "--prompt", "describe", "--arg", "city=Rome", *server)
    assert prompt.exit_code == 0 and "user: " in prompt.output and "Rome" in prompt.output
    assert run("inspect", "--tool", "fail", *server).exit_code == 1
    assert run("inspect", "--tool", "no_such_tool", *server).exit_code == 2


def test_inspecting_nothing_is_told_in_one_line() -> None:
    for words in ([], ["--tool", "a", "--read", "b", "http://127.0.0.1:1"], ["--arg", "x", "--tool", "a", "y"]):
        done = run("inspect", *words)
        assert done.exit_code == 2 and done.output.startswith("error: ") and done.output.count("\n") == 1


def test_what_a_server_says_cannot_steer_the_terminal() -> None:
    assert plain("a\x1b[2J\nb\r\u202ec é") == "a\\x1b[2J\nb\\r\\u202ec é"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"args": ["/path/to/your/project"]}, "'args' has a placeholder, '/path/to/your/project'"),
        ({"args": ["--directory", "/ABSOLUTE/PATH/TO/PARENT/FOLDER/weather"]}, "'args' has a placeholder"),
        ({"args": ["C:\\path\\to\\server.py"]}, "'args' has a placeholder"),
        ({"args": ["/Users/username/Desktop"]}, "'args' has a placeholder"),
        ({"args": ["--root=/path/to/files"]}, "'args' has a placeholder"),
        ({"env": {"API_KEY": "<your key>"}}, "'env.API_KEY' has a placeholder;"),
        ({"env": {"API_KEY": "your-api-key-here"}}, "'env.API_KEY' has a placeholder;"),
        ({"args": ["${APPDATA}\\npm"]}, "'args' has the variable ${APPDATA}, which the host does not expand"),
        ({"env": {"APPDATA": "%APPDATA%"}}, "'env.APPDATA' has the variable %APPDATA%"),
        ({"args": ["--directory", NOWHERE]}, f"'args' has the folder {NOWHERE!r}, which does not exist"),
        ({"args": [f"--root={NOWHERE}"]}, f"'args' has the folder {NOWHERE!r}, which does not exist"),
        ({"cwd": NOWHERE}, f"'cwd' is the folder {NOWHERE!r}, which does not exist"),
    ],
)
def test_checking_finds_what_was_copied_and_not_filled_in(tmp_path: Path, entry: object, problem: str) -> None:
    file = tmp_path / "claude_desktop_config.json"
    fields = {"command": sys.executable, **entry} if isinstance(entry, dict) else {}
    file.write_text(json.dumps({"mcpServers": {"one": fields}}))
    done = run("config", "check", "--file", str(file))
    assert done.exit_code == 1 and problem in done.output and done.output.count("\n") == 1, done.output


def test_checking_finds_names_that_are_there_twice(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    entry = json.dumps({"command": sys.executable})
    file.write_text(f'{{"mcpServers": {{"one": {entry}, "two": {entry}, "one": {entry}}}}}')
    done = run("config", "check", "--file", str(file))
    assert done.exit_code == 1 and "the name 'one' is there twice" in done.output and done.output.count("\n") == 1


def test_checking_has_no_problem_with_what_is_right(tmp_path: Path) -> None:
    """Endpoints are not folders, URLs have no command, and some hosts expand variables."""
    right = {
        "served": {"command": sys.executable, "args": ["--path", "/api/mcp", "--out", "x", str(tmp_path)]},
        "remote": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "variable": {"command": sys.executable, "args": ["${workspaceFolder}/server.py"], "cwd": str(tmp_path)},
    }
    for key in ("servers", "mcpServers"):
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({key: right}))
        done = run("config", "check", "--file", str(file))
        assert (done.exit_code, "3 servers, no problems" in done.output) == (0, True), done.output
