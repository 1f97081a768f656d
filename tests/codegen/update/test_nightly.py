"""The nightly program proposes what works as a pull request, and what does not as an issue, with a `gh` of the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support.project import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the program is written for bash")
CODEGEN = """#!/bin/sh
report=$5
printf '# The specification\\n\\nCommit 1 of today.\\n' > "$report"
case "$OUTCOME" in
  new) mkdir -p schema/draft && echo "$CONTENT" > schema/draft/schema.json;;
  stopped) exit 2;;
  crashed) rm "$report"; exit 1;;
esac
"""
GH = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$2" in list) echo "$OPEN";; esac
"""


@dataclass
class Night:
    """A clone of a repository, and programs that stand in for `mcp-codegen` and `gh`."""

    folder: Path

    def run(self, outcome: str, content: str = "1", number: str = "") -> tuple[int, list[str]]:
        """The exit code of the program, and the commands that `gh` got."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        (temporary := self.folder / "temporary").mkdir(exist_ok=True)
        variables = {"OUTCOME": outcome, "CONTENT": content, "OPEN": number, "CALLS": str(calls)}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [self.folder / "clone" / ".ci" / "follow"],
            env={**os.environ, **variables, "PATH": path, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
        )
        assert not [*temporary.iterdir()]
        return done.returncode, calls.read_text().splitlines() if calls.exists() else []

    def git(self, *arguments: str, at: str = "clone") -> str:
        command = [
            "git",
            "-C",
            str(self.folder / at),
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            *arguments,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def night(tmp_path: Path) -> Night:
    here = Night(tmp_path)
    for name, text in (("mcp-codegen", CODEGEN), ("gh", GH)):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "origin")], check=True)
    subprocess.run(["git", "clone", "--quiet", str(tmp_path / "origin"), str(tmp_path / "clone")], check=True)
    for name in ("schema", "generated", ".ci"):
        (tmp_path / "clone" / name).mkdir()
        (tmp_path / "clone" / name / "file").write_text("text")
    shutil.copy2(ROOT / ".ci" / "follow", tmp_path / "clone" / ".ci" / "follow")
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message", "Begin")
    return here


def test_nothing_new_proposes_nothing(night: Night) -> None:
    assert night.run("same") == (0, [])
    assert night.git("branch", "--list", at="origin") == ""


def test_what_works_is_pushed_and_proposed_once(night: Night) -> None:
    code, calls = night.run("new")
    assert code == 0 and calls[-1].startswith("pr create --head specification")
    assert night.git("show", "specification:schema/draft/schema.json", at="origin") == "1"
    night.git("switch", "--quiet", "-")
    code, calls = night.run("new", content="2", number="7")
    assert code == 0 and calls[-1].startswith("pr edit 7 --body-file")
    assert night.git("show", "specification:schema/draft/schema.json", at="origin") == "2"
    assert night.git("rev-list", "--count", "specification", at="origin") == "2"


@pytest.mark.parametrize(("number", "expected"), [("", "issue create --title"), ("7", "issue edit 7 --body-file")])
def test_what_stops_becomes_one_issue(night: Night, number: str, expected: str) -> None:
    code, calls = night.run("stopped", number=number)
    assert code == 0 and calls[-1].startswith(expected)
    assert night.git("branch", "--list", at="origin") == ""


def test_a_crash_fails_the_night(night: Night) -> None:
    assert night.run("crashed") == (1, [])


def test_the_workflow_runs_the_program_and_may_write_no_more_than_it_needs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "specification.yml").read_text())
    job = workflow["jobs"]["update"]
    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "write", "issues": "write", "pull-requests": "write"}
    assert ".ci/follow" in [step.get("run") for step in job["steps"]]
    assert any("schedule" in str(key) or key is True for key in workflow)
