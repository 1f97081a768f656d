"""`mcp-generated lint` as a command: forms of servers, settings, exit codes, and what programs read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.cli.commands import mcp_codegen

from mcp_codegen.cli.authors import authors

APP = """
from mcp_generated import App
app = App("shop", version="1.0.0")

@app.tool(name="orders.find")
def find(text: str) -> str:
    \"\"\"Find orders.\"\"\"
    return text
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(APP)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\ndependencies = ["mcp>=1"]\n')
    entries = {"shop": {"command": "npx", "args": ["shop"]}, "web": {"url": "http://shop.example/mcp"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    return tmp_path


def lint(folder: Path, *words: str) -> tuple[int, str, str]:
    done = mcp_codegen("lint", *words, folder=folder)
    return done.returncode, done.stdout, done.stderr


def rules(output: str) -> set[str]:
    document: dict[str, Any] = json.loads(output)
    return {finding["rule"] for finding in document["findings"]}


@pytest.mark.long
def test_a_file_is_started_and_its_project_is_read(folder: Path) -> None:
    code, output, errors = lint(folder, "server.py", "--format", "json")
    assert (code, errors) == (1, "")
    assert {"name-characters", "dependency-unbounded"} <= rules(output)


@pytest.mark.long
def test_hosts_settings_and_ignored_rules_decide_the_exit_code(folder: Path) -> None:
    assert lint(folder, "server.py", "--host", "gemini-api")[0] == 0
    assert lint(folder, "server.py", "--host", "cursor", "--strict")[0] == 1
    assert lint(folder, "server.py", "--ignore", "M001")[0] == 0
    assert lint(folder, "server.py", "--ignore", "M001", "--budget", "5")[0] == 1
    with (folder / "pyproject.toml").open("a") as file:
        file.write('[tool.mcp-lint]\nignore = ["name-characters"]\n')
    assert lint(folder, "server.py")[0] == 0
    assert lint(folder, "server.py", "--config", "pyproject.toml")[0] == 0


@pytest.mark.long
def test_all_servers_of_a_configuration_are_read_without_being_started(folder: Path) -> None:
    _, output, _ = lint(folder, "mcp.json", "--no-start", "--format", "json")
    document = json.loads(output)
    assert [server["name"] for server in document["servers"]] == ["shop", "web"]
    assert {"package-unpinned", "plain-http"} <= rules(output)
    assert "plain-http" not in rules(lint(folder, "mcp.json:shop", "--no-start", "--format", "json")[1])


@pytest.mark.long
def test_reports_are_what_their_readers_take(folder: Path) -> None:
    sarif = json.loads(lint(folder, "server.py", "--format", "sarif")[1])
    (run,) = sarif["runs"]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == known
    github = lint(folder, "server.py", "--format", "github")[1].splitlines()
    assert any(line.startswith("::error file=server.py,title=M001 name-characters::") for line in github)
    assert all(line.startswith("::") for line in github)
    table = lint(folder, "server.py", "--format", "markdown")[1]
    assert "| error | M001 name-characters | `tools.orders.find` |" in table
    text = lint(folder, "server.py")[1]
    assert "error M001 name-characters\n  tools.orders.find: 'orders.find' has a dot\n  hosts: " in text


@pytest.mark.long
def test_a_command_that_does_not_start_is_an_error_that_says_why(folder: Path) -> None:
    command = ("--", sys.executable, "-c", "import nothing_at_all")
    code, output, _ = lint(folder, "--format", "json", *command)
    (finding,) = [row for row in json.loads(output)["findings"] if row["level"] == "error"]
    assert (code, finding["rule"]) == (1, "start-failed")
    assert "No module named 'nothing_at_all'" in finding["message"]


@pytest.mark.long
def test_rules_are_listed_and_explained(folder: Path) -> None:
    assert "M012  error    schema-property-key" in lint(folder, "--rules")[1]
    explained = lint(folder, "explain", "M012")[1]
    assert explained.startswith("M012 schema-property-key (error)\n") and "Claude API" in explained
    assert lint(folder, "explain", "budgets")[::2] == (2, "error: there is no rule 'budgets'; did you mean 'budget'?\n")


@pytest.mark.long
def test_fix_writes_and_says_what(folder: Path) -> None:
    pytest.importorskip("libcst", reason="libcst is not installed")
    _, output, errors = lint(folder, "server.py", "--fix", "--format", "json")
    assert errors.splitlines() == [
        "fixed pyproject.toml:3 M074: mcp>=1 → mcp>=1,<2",
        'fixed server.py:5 M001: "orders.find" → "orders_find"',
    ]
    assert rules(output).isdisjoint({"dependency-unbounded", "name-characters"})
    assert '"mcp>=1,<2"' in (folder / "pyproject.toml").read_text()
    assert lint(folder, "server.py", "--fix")[2] == ""


@pytest.mark.long
def test_fix_refuses_links_and_files_with_changes_that_are_not_committed(folder: Path) -> None:
    pytest.importorskip("libcst", reason="libcst is not installed")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(("git", *words), cwd=folder, check=True)
    (folder / "server.py").write_text(APP + "# later\n")
    code, _, errors = lint(folder, "server.py", "--fix")
    assert (code, "server.py: has changes that are not committed" in errors) == (2, True)
    assert (folder / "server.py").read_text() == APP + "# later\n"
    assert "fixed server.py:5 M001" in lint(folder, "server.py", "--fix", "--force")[2]
    target = folder / "elsewhere.toml"
    (folder / "pyproject.toml").rename(target)
    target.write_text('[project]\nname = "shop"\ndependencies = ["mcp>=1"]\n')
    (folder / "pyproject.toml").symlink_to(target)
    assert "no link is followed" in lint(folder, "server.py", "--fix", "--force")[2]
    assert target.read_text().endswith('["mcp>=1"]\n')


@pytest.mark.long
def test_fix_moves_prints_of_a_server_that_a_command_starts(folder: Path) -> None:
    pytest.importorskip("libcst", reason="libcst is not installed")
    program = folder / "started.py"
    program.write_text(APP.replace("orders.find", "find") + '\nprint("ready")\n\napp.run("stdio")\n')
    command = ("--", sys.executable, "started.py")
    _, output, errors = lint(folder, "--fix", "--format", "json", *command)
    assert errors == 'fixed started.py:10 M060: print("ready") → print("ready", file=sys.stderr)\n'
    assert "stdout-noise" not in rules(output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: no server was named; write lint SERVER\n"),
        (["explain"], "error: explain takes one rule, such as explain M012; --rules lists them\n"),
        (["none.py"], "error: none.py: this file does not exist; pass the Python file of a server, or -m MODULE\n"),
        (["mcp.json:none"], "error: mcp.json: has no server 'none'; its servers are: shop, web\n"),
        (
            ["--config", "bad.toml", "server.py"],
            "error: bad.toml: [tool.mcp-lint] has hosts; its keys are host, ignore",
        ),
        (["--config", "type.toml", "server.py"], "error: type.toml: host of [tool.mcp-lint] must be of type list\n"),
    ],
)
def test_wrong_use_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.chdir(folder)
    (folder / "bad.toml").write_text('[tool.mcp-lint]\nhosts = ["cursor"]\n')
    (folder / "type.toml").write_text('[tool.mcp-lint]\nhost = "cursor"\n')
    result = CliRunner().invoke(authors, ["lint", *words])
    assert result.exit_code == 2 and result.output.startswith(message), result.output
    assert result.output.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://user:secret@127.0.0.1:1/shop?key=secret", "shop"),
        ("http://user:secret@127.0.0.1:1", "127.0.0.1"),
        ("http://127.0.0.1:1/shop/#secret", "shop"),
    ],
)
def test_the_name_of_a_url_has_no_secret(tmp_path: Path, url: str, name: str, format: str) -> None:
    _, output, errors = lint(tmp_path, url, "--format", format)
    assert name in output and "secret" not in output + errors
