"""Files of users: no link is followed, a new file is private, and a backup takes no name of another file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.main import main
from mcp_codegen.errors import OutputError
from mcp_codegen.output import write_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and modes of POSIX systems")

PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "gemini": ".gemini/settings.json",
}
CONFIG = json.dumps({"mcpServers": {"other": {"command": "/bin/true"}}})


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of somebody else, which is the current folder, with a hook that git would run."""
    folder = tmp_path / "repository"
    (folder / ".git" / "hooks").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def install(host: str, *options: str) -> Result:
    words = ["install", "--name", "x", "--host", host, *options, "--", "/bin/true"]
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("host", PROJECT_FILES)
def test_a_backup_is_not_written_through_a_link(repository: Path, host: str) -> None:
    file = repository / PROJECT_FILES[host]
    file.parent.mkdir(exist_ok=True)
    file.write_text(CONFIG)
    file.chmod(0o755)
    hook = repository / ".git" / "hooks" / "post-checkout"
    file.with_name(f"{file.name}.bak").symlink_to(hook)
    done = install(host, "--scope", "project")
    assert done.exit_code == 0, done.output
    assert not hook.exists()
    backup = file.with_name(f"{file.name}.bak2")
    assert backup.name in done.output and backup.read_text() == CONFIG
    assert mode(backup) == 0o600 and mode(file) == 0o644


@pytest.mark.parametrize("host", PROJECT_FILES)
def test_a_configuration_that_is_a_link_is_refused(repository: Path, tmp_path: Path, host: str) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(CONFIG)
    file = repository / PROJECT_FILES[host]
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(secret)
    done = install(host, "--scope", "project")
    assert done.exit_code == 2 and f"{file}: is a link to {secret}" in done.output
    assert secret.read_text() == CONFIG and file.is_symlink()
    assert install(host, "--file", str(secret)).exit_code == 0


@pytest.mark.parametrize("host", [host for host, file in PROJECT_FILES.items() if "/" in file])
def test_a_folder_of_a_repository_that_is_a_link_is_refused(repository: Path, tmp_path: Path, host: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = (repository / PROJECT_FILES[host]).parent
    folder.symlink_to(outside)
    done = install(host, "--scope", "project")
    assert done.exit_code == 2 and f"{folder}: is a link to {outside}" in done.output
    assert list(outside.iterdir()) == []


def test_a_configuration_that_is_no_file_is_refused_at_once(repository: Path) -> None:
    os.mkfifo(repository / ".mcp.json")
    done = install("claude-code", "--scope", "project")
    assert done.exit_code == 2 and "not a regular file" in done.output


def test_backups_have_names_of_their_own_and_the_same_text_is_stored_once(repository: Path) -> None:
    file = repository / ".mcp.json"
    file.write_text(CONFIG)
    assert install("claude-code", "--scope", "project").exit_code == 0
    file.write_text(CONFIG)
    assert install("claude-code", "--scope", "project").exit_code == 0
    assert sorted(path.name for path in repository.iterdir()) == [".git", ".mcp.json", ".mcp.json.bak"]
    changed = file.read_text()
    removed = CliRunner().invoke(main, ["uninstall", "x", "--host", "claude-code", "--scope", "project"])
    assert removed.exit_code == 0, removed.output
    assert (repository / ".mcp.json.bak").read_text() == CONFIG
    assert (repository / ".mcp.json.bak2").read_text() == changed


@pytest.mark.parametrize("before", [None, 0o600, 0o640, 0o755])
def test_a_file_keeps_its_permissions_without_execution(repository: Path, before: int | None) -> None:
    file = repository / "claude_desktop_config.json"
    if before is not None:
        file.write_text(CONFIG)
        file.chmod(before)
    words = ["config", "add", "--file", str(file), "x", "--", "/bin/true"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert mode(file) == (0o600 if before is None else before & 0o666)
    assert not list(repository.glob(".claude*.tmp"))


@pytest.mark.parametrize("current", [".", "project/package"])
def test_generated_files_do_not_pass_a_link_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, current: str
) -> None:
    outside, package = tmp_path / "outside", tmp_path / "project" / "package"
    outside.mkdir()
    package.mkdir(parents=True)
    (package / "inner").symlink_to(outside)
    monkeypatch.chdir(tmp_path / current)
    with pytest.raises(OutputError, match="is a link to"):
        write_folder(package, {package / "inner" / "module.py": "# generated by mcp-codegen\n"})
    assert list(outside.iterdir()) == []


def test_a_generated_file_replaces_a_link_and_keeps_the_permissions_of_a_file(tmp_path: Path) -> None:
    text = "# generated by mcp-codegen\n"
    target, folder = tmp_path / "target.py", tmp_path / "package"
    folder.mkdir()
    target.write_text(text)
    (folder / "link.py").symlink_to(target)
    (folder / "file.py").write_text(text)
    (folder / "file.py").chmod(0o600)
    write_folder(folder, {folder / "link.py": text + "1\n", folder / "file.py": text + "2\n"})
    assert target.read_text() == text and (folder / "link.py").read_text() == text + "1\n"
    assert mode(folder / "file.py") == 0o600
