"""`.ci/run`, the workflows of CI and CONTRIBUTING.md list the same parts."""

from __future__ import annotations

import re
from typing import Final

import yaml
from support.project import ROOT

CONTRIBUTING: Final = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
README_TESTS: Final = "test"  # README's test command does what this session does.


def sessions_in(commands: str) -> set[str]:
    """Return the sessions that these commands of a shell run."""
    return {name for line in re.findall(r"nox -s ([a-z_ ]+)", commands) for name in line.split()}


def sections() -> dict[str, str]:
    """Return the text below each heading of CONTRIBUTING.md."""
    parts = re.split(r"^## (.+)\n", CONTRIBUTING, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(section: str) -> list[list[str]]:
    """Return the cells of the rows of a table, without its head."""
    lines = [line for line in sections()[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def parts_of_ci(column: int) -> set[str]:
    """Return the sessions that CONTRIBUTING.md lists for `.ci/run` (1) or for GitHub (2)."""
    return {name.strip("`") for name, *where in rows("What CI runs") if where[column - 1]}


def test_the_script_runs_the_parts_that_contributing_lists() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    run = sessions_in("\n".join(re.findall(r"^ *\(?part .*$", script, re.M)))
    assert run | {README_TESTS} == parts_of_ci(1)


def test_the_workflows_run_the_parts_that_contributing_lists() -> None:
    folder = ROOT / ".github" / "workflows"
    workflows = [yaml.safe_load((folder / name).read_text(encoding="utf-8")) for name in ("ci.yml", "nightly.yml")]
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    steps = [step.get("run", "") for job in jobs for step in job["steps"]]
    assert sessions_in("\n".join(steps)) == parts_of_ci(2)
    assert parts_of_ci(1) <= parts_of_ci(2)
