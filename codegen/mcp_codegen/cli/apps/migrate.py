"""The command `migrate`: a program of another SDK becomes one of this project."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ...errors import CodegenError
from ...migrate.names import Goal
from ...migrate.project import Project
from ...migrate.report import Edited, Outcome, compared, lines_of, refuse_changed, relative, run_tests, summary, write
from ...output import plain
from ..options import DIFFERENT, Place, report_errors

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("migrate", short_help="Move a program of the official SDK or of FastMCP here.")
@click.argument("path", type=Place())
@click.option("--diff", "is_diff", is_flag=True, help="Show the changes; write nothing. The default.")
@click.option("--write", "is_write", is_flag=True, help="Write the changes.")
@click.option(
    "--to",
    "goal",
    type=click.Choice(["compat", "app"]),
    default="compat",
    show_default=True,
    help="compat changes imports and requirements only; app makes native apps.",
)
@click.option("--force", is_flag=True, help="Write files with changes that git has not committed.")
@click.option(
    "--test", "command", metavar="COMMAND", help="Run the project's own tests before and after; needs --write."
)
@click.option("--json", "is_json", is_flag=True, help="Print the report as JSON, without the changes.")
@report_errors
def migrate(
    *, path: Path, is_diff: bool, is_write: bool, goal: Goal, force: bool, command: str | None, is_json: bool
) -> None:
    """Move a program of mcp 1.x, mcp 2.x or FastMCP 2 to 4: a file, or the folder of a project.

    \b
    mcp-generated migrate .                              show what would change
    mcp-generated migrate . --write                      change it
    mcp-generated migrate . --write --test "pytest -q"   with its own tests before and after
    mcp-generated migrate server.py --to app --write     make it a native app

    What is not certain gets a comment "# mcp-generated: …" with the reason; git grep finds these. Exit code 0: done;
    1: a test that passed no longer does, or a file could not be read; 2: wrong use.
    """
    if is_diff and is_write:
        raise CodegenError("--diff and --write exclude each other; pass one of them")
    if command is not None and not is_write:
        raise CodegenError("--test runs the tests after the changes too: pass --write with it")
    project = Project(path, goal)
    files = project.edited()
    before: Outcome | None = None
    if is_write:
        if not force:
            refuse_changed(files, project.root)
        before = None if command is None else run_tests(command, project.root)
        write(files)
    elif not is_json:
        _show(files, project.root)
    after = None if command is None else run_tests(command, project.root)
    is_same, test_lines = (True, list[str]()) if before is None or after is None else compared(before, after)
    if is_json:
        document = {**summary(files, project.root), "to": goal, "from": project.form, "written": is_write}
        click.echo(json.dumps(document | ({"tests": test_lines} if test_lines else {}), indent=2))
    else:
        for line in [*lines_of(files, project.root), *test_lines]:
            click.echo(plain(line))
    if not is_same or any(file.error for file in files):
        raise SystemExit(DIFFERENT)


def _show(files: Sequence[Edited], root: Path) -> None:
    for file in files:
        if file.is_changed:
            for line in _difference(file, root):
                click.echo(click.style(line, fg=_COLORS.get(line[:1])))


def _difference(file: Edited, root: Path) -> Iterator[str]:
    name = relative(file.path, root)
    before, after = (data.decode("utf-8", "backslashreplace").splitlines() for data in (file.before, file.after))
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm=""):
        yield plain(line.replace("\t", "    "))
