"""Where `mcp-codegen --revision R` writes: a package that imports beside the installed one, and what it prints."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.project import ROOT

from mcp_codegen.cli.main import main

INSTALLED = os.pathsep.join(f"{ROOT}/{folder}" for folder in ("codegen", "runtime", "products", "generated"))
REVISION = "2025-03-26"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder of its user, where the packages of this project are installed."""
    environment = {**os.environ, "PYTHONPATH": INSTALLED}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a user who has run `mcp-codegen --revision R` there, and what it printed."""
    folder = tmp_path_factory.mktemp("project")
    done = python(folder, "-m", "mcp_codegen", "--revision", REVISION)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.mark.long
def test_the_default_package_imports_beside_the_installed_one(project: tuple[Path, str]) -> None:
    folder, _ = project
    assert [path.name for path in folder.iterdir()] == ["mcp_bindings"]
    code = (
        "from mcp_generated import App, connect, v2025_03_26 as installed; import mcp_bindings.v2025_03_26 as written; "
        "print(App.__name__, installed.Server is written.Server, written.types.Tool.__name__)"
    )
    done = python(folder, "-c", code)
    assert (done.stdout, done.stderr) == ("App False Tool\n", "")


@pytest.mark.long
def test_it_prints_what_was_written_what_to_import_and_what_to_run_next(project: tuple[Path, str]) -> None:
    folder, output = project
    count = sum(path.is_file() for path in (folder / "mcp_bindings").rglob("*") if "__pycache__" not in path.parts)
    written, imported, then = output.splitlines()
    assert written == f"{REVISION}: {count} files written to mcp_bindings"
    statement = imported.removeprefix("to import: ")
    assert python(folder, "-c", f"{statement}; print(Server, types)").returncode == 0
    command = shlex.split(then.removeprefix("to run next: ").partition("  (")[0])
    assert command[0] == "mcp-codegen"
    done = python(folder, "-m", "mcp_codegen", *command[1:])
    assert (done.returncode, "up to date" in done.stdout) == (0, True)


def test_a_second_run_says_that_all_files_are_up_to_date(tmp_path: Path) -> None:
    words = ("--revision", REVISION, "--output", tmp_path / "own")
    assert "files written to" in run(*words).output
    again = run(*words)
    count = sum(path.is_file() for path in (tmp_path / "own").rglob("*"))
    assert (again.exit_code, again.output) == (
        0,
        f"{REVISION}: all {count} files in {tmp_path / 'own'} are up to date\n",
    )
    (tmp_path / "own" / "__init__.py").unlink()
    third = run(*words)
    assert f"1 file written to {tmp_path / 'own'}; the other {count - 1} were up to date" in third.output


@pytest.mark.parametrize(
    "words",
    [
        ("--check",),
        ("--output", "own"),
        ("--standalone",),
        ("--templates", "own"),
        ("--schema", "own"),
        ("--check", "--output", "own"),
    ],
    ids=" ".join,
)
def test_options_without_a_revision_are_an_error(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2 and result.output.count("\n") == 1
    assert words[0] in result.output and "--revision R or --all" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("--check", "list"), ("--revision", REVISION, "config", "show")], ids=" ".join)
def test_options_before_a_command_that_has_no_use_for_them_are_an_error(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 2 and result.output.startswith(f"error: {words[0]}: only for generating bindings")


def test_a_revision_and_all_of_them_exclude_each_other() -> None:
    result = run("--all", "--revision", REVISION, "--check")
    assert result.exit_code == 2 and "--revision and --all exclude each other" in result.output


@pytest.mark.parametrize("name", ["my-package", "2025", "class", "a b", "v1.0", "json", "mcp_generated", "mcp_runtime"])
@pytest.mark.parametrize("more", [(), ("--check",), ("--standalone",)], ids=["write", "check", "standalone"])
def test_a_folder_that_cannot_be_imported_is_an_error(tmp_path: Path, name: str, more: tuple[str, ...]) -> None:
    result = run("--revision", REVISION, "--output", tmp_path / name, *more)
    assert result.exit_code == 2 and result.output.count("\n") == 1
    assert f"{name!r}" in result.output and "--output mcp_bindings" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_in_a_checkout_the_committed_package_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "docs")
    result = run("--revision", REVISION)
    assert (result.exit_code, "up to date" in result.output) == (0, True)
    assert str(ROOT / "generated" / "mcp_generated") in result.output
