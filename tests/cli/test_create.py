"""`mcp-generated create`: a project whose test passes and whose server answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.cli.commands import INSTALLED, LIMIT, mcp_codegen

from mcp_codegen.cli.main import main


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects")
    done = mcp_codegen("create", "my-server", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "my-server"


def test_it_has_a_server_a_test_and_configurations(project: Path) -> None:
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    configurations = {".mcp.json", ".vscode/mcp.json", ".gitignore", "README.md", "pyproject.toml"}
    for_agents = {"AGENTS.md", "skills/write-tools/SKILL.md"}
    assert {name for name in files if "cache" not in name} == {
        *("my_server/__init__.py", "my_server/server.py", "tests/test_server.py", "tests/test_every_tool.py"),
        *configurations,
        *for_agents,
    }
    metadata = tomllib.loads((project / "pyproject.toml").read_text())
    assert metadata["project"]["name"] == "my-server"
    assert metadata["project"]["scripts"] == {"my-server": "my_server.server:main"}
    assert not any(
        "{{ name" in (project / name).read_text() or "{{ package" in (project / name).read_text() for name in files
    )
    for name, key in ((".mcp.json", "mcpServers"), (".vscode/mcp.json", "servers")):
        entry = json.loads((project / name).read_text())[key]["my-server"]
        assert (entry["command"], entry["args"][0]) == ("mcp-generated", "run")


@pytest.mark.long
def test_its_test_passes(project: Path) -> None:
    environment = {**os.environ, **INSTALLED}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # A client passes few variables to the server that it starts, so the server gets the packages from its interpreter.
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and "7 passed" in done.stdout, done.stdout


FAULTY = """

@app.tool()
def unfriendly(path: str) -> str:
    return open(path).read() if path.startswith("/") else path + "/home/me"
"""


@pytest.mark.long
def test_its_tests_find_what_a_tool_lacks(project: Path, tmp_path: Path) -> None:
    """A tool without a description, whose result has what no client may see."""
    folder = shutil.copytree(project, tmp_path / "faulty")
    text = (folder / "my_server/server.py").read_text()
    (folder / "my_server/server.py").write_text(text.replace("\n\n@app.resource", FAULTY + "\n\n@app.resource", 1))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_every_tool.py"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **INSTALLED}, capture_output=True, text=True, timeout=LIMIT
    )
    failed = set(re.findall(r"^FAILED \S+::(\w+)\[(\w+)\]", done.stdout, re.MULTILINE))
    assert failed == {
        ("test_a_model_can_choose_it", "unfriendly"),
        ("test_long_and_hostile_texts_end_in_a_short_result_without_secrets", "unfriendly"),
    }, done.stdout


@pytest.mark.long
def test_its_server_answers(project: Path) -> None:
    done = mcp_codegen("call", "my_server/server.py", "add", "a=1", "b=2", "--json", folder=project)
    assert json.loads(done.stdout)["structuredContent"] == {"result": 3}, done.stderr
    done = mcp_codegen("inspect", "my_server/server.py", "--read", "greeting://you", folder=project)
    assert (done.returncode, done.stdout) == (0, "Hello, you!\n")


@pytest.mark.exhaustive
def test_its_code_is_formatted_and_typed(project: Path) -> None:
    for arguments in (
        ["ruff", "check"],
        ["black", "--check", "--line-length", "120"],
        ["mypy", "--strict", "my_server/server.py"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *arguments, *(["."] if arguments[0] != "mypy" else [])],
            cwd=project,
            env={**os.environ, "MYPYPATH": INSTALLED["PYTHONPATH"]},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_files_that_exist_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    done = run("create", "mine", "--output", tmp_path)
    assert done.exit_code == 2 and "README.md: exists already" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["../up", "a b", "1st", "json", "-x-", 'x"', "class", "tests", "MCP"])
def test_a_name_that_no_project_can_have_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("create", "--", name)
    assert done.exit_code == 2 and repr(name) in done.output and done.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_nothing_is_found_of_its_server(project: Path) -> None:
    done = mcp_codegen("lint", "my_server/server.py", "--strict", "--format", "json", folder=project)
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, []), done.stdout


@pytest.mark.long
def test_it_can_be_packed(project: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "my-server.mcpb"
    done = mcp_codegen("pack", "my_server/server.py", "--output", bundle, folder=project)
    assert done.returncode == 0, done.stderr
    assert mcp_codegen("pack", bundle, "--check").stdout == f"{bundle}: no problems\n"
