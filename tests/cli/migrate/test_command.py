"""`mcp-generated migrate` as a command: what it prints, what it writes and refuses, and tests before and after."""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.cli.commands import mcp_codegen
from support.project import ROOT

pytest.importorskip("libcst", reason="libcst is not installed")

from mcp_codegen.cli.authors import authors
from mcp_codegen.migrate import names as names_module
from mcp_codegen.migrate.names import tables
from mcp_codegen.migrate.report import DOCUMENTATION

SERVER = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\nmcp._tool_manager\n"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(authors, ["migrate", *map(str, words)])


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=x", "-c", "user.email=x@x.example")
    subprocess.run(["git", "-C", str(folder), *settings, *words], check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    os.chmod(tmp_path / "server.py", 0o755)
    return tmp_path


def test_without_an_option_nothing_is_written(folder: Path) -> None:
    result = run(folder)
    assert result.exit_code == 0
    assert "-from mcp.server.fastmcp import FastMCP\n+from mcp_generated.compat import FastMCP\n" in result.output
    assert "server.py:3: a private attribute" in result.output
    assert (folder / "server.py").read_text() == SERVER


def test_a_written_file_keeps_its_mode(folder: Path) -> None:
    assert run(folder, "--write").exit_code == 0
    assert (folder / "server.py").read_text().startswith("from mcp_generated.compat import FastMCP\n")
    assert stat.S_IMODE((folder / "server.py").stat().st_mode) == 0o755
    assert [path.name for path in folder.iterdir()] == ["server.py"]


def test_changes_that_are_not_committed_are_refused(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "server.py")
    git(folder, "commit", "-qm", "x")
    (folder / "server.py").write_text(SERVER + "x = 1\n")
    result = run(folder, "--write")
    assert result.exit_code == 2 and "server.py: has changes that are not committed" in result.output
    assert run(folder, "--write", "--force").exit_code == 0
    git(folder, "commit", "-qam", "y")
    assert run(folder, "--write").exit_code == 0


def test_a_link_is_not_written_through(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    target = tmp_path_factory.mktemp("other") / "server.py"
    target.write_text(SERVER)
    (folder / "server.py").unlink()
    (folder / "server.py").symlink_to(target)
    assert "0 files read" in run(folder, "--write").output
    result = run(folder / "server.py", "--write")
    assert (result.exit_code, target.read_text()) == (2, SERVER)
    assert "is a link" in result.output


def test_the_report_is_json_too(folder: Path) -> None:
    document = json.loads(run(folder, "--json").output)
    assert (document["from"], document["to"], document["written"]) == ("v1", "compat", False)
    assert document["counts"] == {"files": 1, "changed": 1, "marks": 1, "errors": 0, "changes": {"import": 1}}
    [file] = document["files"]
    assert (file["path"], file["marks"][0]["line"]) == ("server.py", 3)
    assert file["marks"][0]["link"] == f"{DOCUMENTATION}#private-attributes"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--diff", "--write"], "exclude each other"),
        (["--test", "pytest"], "pass --write with it"),
        (["--write", "--test", "no-such-command-here"], "cannot be started"),
        (["--to", "other"], "is not one of"),
    ],
)
def test_wrong_use_is_one_line(words: list[str], text: str, folder: Path) -> None:
    result = run(folder, *words)
    assert result.exit_code == 2 and text in result.output
    assert (folder / "server.py").read_text() == SERVER


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    result = run(tmp_path / "none")
    assert result.exit_code == 2 and "does not exist" in result.output


def test_a_file_that_cannot_be_read_gives_exit_code_1(folder: Path) -> None:
    (folder / "broken.py").write_text("from mcp import x\nprint 'x'\n")
    result = run(folder, "--write")
    assert result.exit_code == 1 and "broken.py: not changed" in result.output
    assert (folder / "server.py").read_text().startswith("from mcp_generated")


@pytest.mark.long
def test_the_tests_of_the_project_are_compared(folder: Path) -> None:
    (folder / "mcp").mkdir()
    (folder / "mcp" / "__init__.py").touch()
    program = "import pathlib\n\ndef test_old():\n    assert 'mcp.server' in pathlib.Path('server.py').read_text()\n"
    (folder / "test_server.py").write_text(program + "\ndef test_any():\n    assert True\n")
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    done = mcp_codegen("migrate", ".", "--write", "--test", command, folder=folder)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "passed before, not after: test_server::test_old"
    assert lines[-3].startswith("tests before: 2 passed")
    done = mcp_codegen("migrate", ".", "--write", "--test", command, folder=folder)
    assert done.returncode == 0 and "tests after: 1 failed, 1 passed" in done.stdout


# ---- the page -------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8")


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.long
def test_the_page_can_be_followed_literally(tmp_path: Path) -> None:
    found = blocks()
    sources = [text for kind, text in found if kind == "py"]
    texts = [text for kind, text in found if kind == "text"]
    (tmp_path / "server.py").write_text(sources[0])
    (tmp_path / "requirements.txt").write_text(texts[0])
    written: list[str] = []
    for kind, text in found:
        if kind != "console":
            continue
        output = ""
        for line in text.splitlines():
            if line.startswith("$ pip "):  # tests/website/test_author_pages.py runs it.
                continue
            words = line.removeprefix("$ mcp-generated ").split()
            done = mcp_codegen(*words, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            output += done.stdout
        written.append(output)
    assert written == texts[1:]


def test_every_mark_leads_to_a_heading_of_the_page() -> None:
    headings = {re.sub(r"[^a-z0-9]+", "-", line.lower()) for line in re.findall(r"^#+ (.+)$", PAGE, re.M)}
    links = {rule.link for rules in tables().rules.values() for rule in rules if rule.reason}
    for path in Path(names_module.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "mark",
                "Mark",
                "_mark_text",
            ):
                links |= {ast.literal_eval(item) for item in node.args[-1:] if isinstance(item, ast.Constant)}
    assert links - headings == set()
    assert {"by-hand", "no-counterpart", "star-imports", "native-apps"} <= headings & {
        *links,
        "by-hand",
        "star-imports",
    }
