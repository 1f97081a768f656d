"""`mcp-generated install` and `uninstall`: the files of hosts, what remains in them, and what is refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from support.cli.commands import INSTALLED

from mcp_codegen.cli.main import main
from mcp_codegen.servers.hosts import HOSTS

SERVER = "from mcp_generated import App\nweather = App('My weather')\n"
RUN = ["-m", "mcp_codegen", "run"]


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without any configuration; the current folder is a project in it with a server."""
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CLAUDE_CONFIG_DIR", "USERPROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", INSTALLED["PYTHONPATH"])
    project = tmp_path / "project"
    project.mkdir()
    (project / "server.py").write_text(SERVER)
    monkeypatch.chdir(project)
    return tmp_path


def read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)


ROAMING = {"HOME": "/u", "APPDATA": "/u/Roaming"}
LIBRARY = "/u/Library/Application Support"


@pytest.mark.parametrize(
    ("host", "linux", "darwin", "windows"),
    [
        (
            "claude-desktop",
            "/u/.config/Claude/claude_desktop_config.json",
            f"{LIBRARY}/Claude/claude_desktop_config.json",
            "/u/Roaming/Claude/claude_desktop_config.json",
        ),
        ("claude-code", "/u/.claude.json", "/u/.claude.json", "/u/.claude.json"),
        ("cursor", "/u/.cursor/mcp.json", "/u/.cursor/mcp.json", "/u/.cursor/mcp.json"),
        (
            "vscode",
            "/u/.config/Code/User/mcp.json",
            f"{LIBRARY}/Code/User/mcp.json",
            "/u/Roaming/Code/User/mcp.json",
        ),
        ("gemini", "/u/.gemini/settings.json", "/u/.gemini/settings.json", "/u/.gemini/settings.json"),
        (
            "goose",
            "/u/.config/goose/config.yaml",
            "/u/.config/goose/config.yaml",
            "/u/Roaming/Block/goose/config/config.yaml",
        ),
    ],
)
def test_each_host_has_its_file_on_each_platform(host: str, linux: str, darwin: str, windows: str) -> None:
    assert HOSTS[host].path_of_user("linux", {"HOME": "/u"}).as_posix() == linux
    assert HOSTS[host].path_of_user("darwin", {"HOME": "/u"}).as_posix() == darwin
    assert HOSTS[host].path_of_user("win32", ROAMING).as_posix() == windows


def stdio(key: str, more: Mapping[str, object], where: Path) -> dict[str, object]:
    """The configuration of a host that starts the server of the project."""
    args = [*RUN, str(where / "project" / "server.py")]
    return {key: {"My-weather": {**more, "command": sys.executable, "args": args, "env": {"KEY": "value"}}}}


@pytest.mark.long
def test_every_host_gets_the_server_in_its_own_form(home: Path) -> None:
    words = [word for host in HOSTS for word in ("--host", host)]
    done = run("install", "server.py", "--env", "KEY=value", *words)
    assert done.exit_code == 0, done.output
    typed = {"type": "stdio"}
    assert read(home / ".config/Claude/claude_desktop_config.json") == stdio("mcpServers", {}, home)
    assert read(home / ".claude.json") == stdio("mcpServers", typed, home)
    assert read(home / ".cursor/mcp.json") == stdio("mcpServers", typed, home)
    assert read(home / ".config/Code/User/mcp.json") == stdio("servers", typed, home)
    assert read(home / ".gemini/settings.json") == stdio("mcpServers", {}, home)
    [(name, goose)] = read(home / ".config/goose/config.yaml")["extensions"].items()
    assert (name, goose["name"], goose["type"], goose["enabled"]) == ("My-weather", "My-weather", "stdio", True)
    assert (goose["cmd"], goose["args"]) == (sys.executable, [*RUN, str(home / "project" / "server.py")])
    assert goose["envs"] == {"KEY": "value"}
    assert done.output.count("My-weather added") == len(HOSTS)


@pytest.mark.parametrize(
    ("host", "file", "entry"),
    [
        ("claude-code", ".mcp.json", {"type": "http", "url": "http://x/mcp", "headers": {"A": "b"}}),
        ("cursor", ".cursor/mcp.json", {"url": "http://x/mcp", "headers": {"A": "b"}}),
        ("vscode", ".vscode/mcp.json", {"type": "http", "url": "http://x/mcp", "headers": {"A": "b"}}),
        ("gemini", ".gemini/settings.json", {"httpUrl": "http://x/mcp", "headers": {"A": "b"}}),
    ],
)
def test_a_url_is_written_for_a_project(home: Path, host: str, file: str, entry: object) -> None:
    words = ("--name", "remote", "--host", host, "--scope", "project", "--header", "A: b")
    done = run("install", "http://x/mcp", *words)
    assert done.exit_code == 0, done.output
    assert read(home / "project" / file)[HOSTS[host].servers_key] == {"remote": entry}


def test_a_command_becomes_absolute(home: Path) -> None:
    done = run("install", "--name", "other", "--host", "cursor", "--", sys.executable, "server.py", "--port", "1")
    assert done.exit_code == 0, done.output
    args = [str(home / "project" / "server.py"), "--port", "1"]
    expected = {"type": "stdio", "command": sys.executable, "args": args}
    assert read(home / ".cursor/mcp.json")["mcpServers"]["other"] == expected


BEFORE = {
    "theme": "dark",
    "mcpServers": {
        "other": {"command": "/bin/true", "args": []},
        "x": {"command": "old", "args": ["a"], "env": {"A": "1", "B": "2"}, "disabled": True},
    },
    "after": [1.0, None, "é"],
}


def test_everything_else_remains_and_a_backup_is_written(home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    before = json.dumps(BEFORE, indent="\t", ensure_ascii=False)
    file.write_text(before, encoding="utf-8")
    file.chmod(0o640)
    done = run("install", "server.py", "--name", "x", "--host", "cursor", "--env", "B=3")
    assert done.exit_code == 0 and "x replaced" in done.output and "mcp.json.bak" in done.output
    after = read(file)
    entry = after["mcpServers"].pop("x")
    assert entry["env"] == {"A": "1", "B": "3"} and entry["disabled"] is True and entry["command"] == sys.executable
    rest = {**BEFORE, "mcpServers": {"other": {"command": "/bin/true", "args": []}}}
    assert after == rest and list(after) == list(BEFORE)
    assert '\n\t"theme"' in file.read_text(encoding="utf-8")
    backup = file.with_name("mcp.json.bak")
    assert backup.read_text(encoding="utf-8") == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["mcp.json", "mcp.json.bak"]
    if os.name != "nt":
        assert [path.stat().st_mode & 0o777 for path in (file, backup)] == [0o640, 0o600]
    done = run("uninstall", "x", "--host", "cursor")
    assert done.exit_code == 0 and read(file) == rest


GOOSE = """\
# my settings
GOOSE_MODEL: gpt   # the model
extensions:
  # the builtin one
  developer:
    enabled: true
    type: builtin   # as it is

  # another
  memory: {type: builtin, enabled: false}
# the end
LAST: [1, 2]
"""


def test_a_yaml_file_keeps_its_comments_and_layout(home: Path) -> None:
    file = home / ".config" / "goose" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(GOOSE)
    assert run("install", "server.py", "--name", "x", "--host", "goose").exit_code == 0
    assert run("install", "server.py", "--name", "y", "--host", "goose", "--env", "A=#: '\"é").exit_code == 0
    text = file.read_text(encoding="utf-8")
    assert [line for line in GOOSE.splitlines() if line not in text.splitlines()] == []
    assert list(read(file)["extensions"]) == ["y", "x", "developer", "memory"]
    assert read(file)["extensions"]["y"]["envs"] == {"A": "#: '\"é"}
    again = run("install", "server.py", "--name", "x", "--host", "goose")
    assert again.exit_code == 0 and "x replaced" in again.output
    for name in ("x", "y"):
        assert run("uninstall", name, "--host", "goose").exit_code == 0
    assert file.read_text(encoding="utf-8") == GOOSE
    assert run("uninstall", "developer", "--host", "goose").exit_code == 0
    assert list(read(file)["extensions"]) == ["memory"] and "  # another" in file.read_text()


@pytest.mark.parametrize("before", ["", "extensions:\n", "extensions: {}\n", "A: 1\n", "A: 1"], ids=repr)
def test_a_yaml_file_without_extensions_gets_them(home: Path, before: str) -> None:
    file = home / "goose.yaml"
    file.write_text(before)
    done = run("install", "server.py", "--name", "x", "--host", "goose", "--file", file)
    assert done.exit_code == 0, done.output
    assert list(read(file)["extensions"]) == ["x"] and read(file).get("A") == (yaml.safe_load(before) or {}).get("A")


@pytest.mark.parametrize(
    ("host", "text", "message"),
    [
        ("cursor", '{\n "a": 1,\n "b" 2\n}', "is not JSON: line 3, column"),
        ("cursor", "[]", "must be a JSON object"),
        ("cursor", '{"mcpServers": []}', "'mcpServers' must be an object"),
        ("vscode", '{\n  // mine\n  "servers": {}\n}', "line 2 has a comment, which would be lost"),
        ("vscode", '{"a": "// no", /* yes\n */ "servers": {}}', "line 1 has a comment, which would be lost"),
        ("cursor", '{"mcpServers": {"a": {}, "a": {}}}', "the name 'a' is there twice"),
        ("goose", "a: 1\nb: [1\nc: 2\n", "is not YAML: line 3"),
        ("goose", "extensions: [1]\n", "'extensions' must be an object"),
        ("goose", "extensions: {a: {type: builtin}}\n", "has a layout that cannot be edited safely"),
    ],
    ids=["json", "list", "servers", "comment", "block-comment", "duplicate", "yaml", "sequence", "flow"],
)
def test_a_file_that_cannot_be_edited_is_refused_and_left_as_it_is(
    home: Path, host: str, text: str, message: str
) -> None:
    file = home / ("config.yaml" if host == "goose" else "config.json")
    file.write_text(text)
    done = run("install", "server.py", "--name", "x", "--host", host, "--file", file)
    assert done.exit_code == 2 and message in done.output and done.output.count("\n") == 1, done.output
    assert file.read_text() == text and [path.name for path in home.glob("config*")] == [file.name]


def test_one_broken_file_of_several_changes_none(home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{")
    done = run("install", "server.py", "--name", "x", "--host", "gemini", "--host", "cursor")
    assert done.exit_code == 2 and not (home / ".gemini").exists()


def test_a_dry_run_prints_the_entry_and_writes_nothing(home: Path) -> None:
    done = run("install", "server.py", "--name", "x", "--host", "vscode", "--env", "A=b", "--dry-run")
    assert done.exit_code == 0 and str(home / ".config/Code/User/mcp.json") in done.output
    assert "servers.x" in done.output and json.loads(done.output[done.output.index("{") :])["env"] == {"A": "b"}
    assert [path.name for path in home.iterdir()] == ["project"]
    run("install", "server.py", "--name", "x", "--host", "vscode")
    done = run("uninstall", "x", "--host", "vscode", "--dry-run")
    assert done.exit_code == 0 and "x" in read(home / ".config/Code/User/mcp.json")["servers"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no server was named"),
        (("missing.py", "--name", "x"), "missing.py: this file does not exist"),
        (("http://x/mcp", "--name", "x"), "Claude Desktop takes no URL in its configuration"),
        (("server.py", "--name", "x", "--scope", "project"), "Claude Desktop has no configuration for one project"),
        (("server.py", "--name", "..."), "'...' cannot be a name"),
        (("server.py", "--name", "x", "--header", "A: b"), "need a server with a URL"),
        (
            ("server.py", "--name", "x", "--host", "cursor", "--host", "gemini", "--file", "f"),
            "--file needs one --host",
        ),
        pytest.param(
            ("server.py:nothing",),
            "the module has no 'nothing'; its servers are: weather; nothing was written",
            marks=pytest.mark.long,
        ),
    ],
    ids=["nothing", "missing", "url", "scope", "name", "header", "file", "does-not-start"],
)
def test_wrong_use_is_one_line_and_writes_nothing(home: Path, words: tuple[str, ...], message: str) -> None:
    done = run("install", *words)
    assert done.exit_code == 2 and message in done.output and done.output.count("\n") == 1, done.output
    assert [path.name for path in home.iterdir()] == ["project"]


def test_removing_an_unknown_server_names_the_nearest(home: Path) -> None:
    run("install", "server.py", "--name", "weather", "--host", "cursor")
    done = run("uninstall", "wether", "--host", "cursor")
    assert done.exit_code == 2 and "did you mean 'weather'? (its servers: weather)" in done.output
    assert run("uninstall", "weather", "--host", "gemini").exit_code == 2


@pytest.mark.long
def test_what_a_host_starts_answers(home: Path) -> None:
    """The entry works from another folder, as hosts start it."""
    env = f"PYTHONPATH={INSTALLED['PYTHONPATH']}"
    assert run("install", "server.py", "--host", "cursor", "--env", env).exit_code == 0
    os.chdir("/")
    done = run("inspect", "--config", home / ".cursor" / "mcp.json", "--server", "My-weather")
    assert done.exit_code == 0 and done.output.startswith("My weather "), done.output


def test_uninstalling_from_a_file_of_ones_own_needs_one_host(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"mcpServers": {"x": {"command": "true"}, "y": {"command": "true"}}}), encoding="utf-8")
    done = run("uninstall", "x", "--host", "cursor", "--host", "gemini", "--file", str(file))
    assert done.exit_code == 2 and "--file needs one --host" in done.output and "x" in read(file)["mcpServers"]
    assert run("uninstall", "x", "--host", "cursor", "--file", str(file)).exit_code == 0
    assert [*read(file)["mcpServers"]] == ["y"]
