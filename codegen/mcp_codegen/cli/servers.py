"""The commands `tools`, `lock` and `check`: a server goes in, wrappers, a lock or a report come out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import click

from ..output import write_files
from ..paths import template_folders
from ..servers.changes import SEVERITIES, Severity
from ..servers.contract import Contract
from ..servers.probe import ServerTarget, probe
from .options import DIFFERENT, FILE, FOLDER, report_errors
from .server_options import with_target

_LOCK: Final = "mcp-lock.json"


@click.command("tools", short_help="Write typed functions for a server.")
@with_target
@click.option("--output", type=FILE, metavar="FILE", help="The module to write. Default: standard output.")
@click.option("--templates", "own", type=FOLDER, metavar="DIR", help="Templates that stand before ours, file by file.")
@report_errors
def tools(
    target: ServerTarget,
    timeout: float,
    output: Path | None,
    own: Path | None,
) -> None:
    """Write a module with a typed function for each tool, prompt and resource template of a server."""
    from ..servers.wrappers import wrap  # Loads datamodel-code-generator and black.

    contract = probe(target, timeout)
    text = wrap(contract, shlex.quote(str(target)), template_folders(own))
    if output is None:
        click.echo(text, nl=False)
        return
    write_files({output: text})
    click.echo(f"{output}: {_counts(contract)}")


@click.command("lock", short_help="Record what a server offers.")
@with_target
@click.option("--output", type=FILE, metavar="FILE", default=_LOCK, show_default=True, help="The lock to write.")
@report_errors
def lock(target: ServerTarget, timeout: float, output: Path) -> None:
    """Record what a server offers, with a hash for each tool, prompt and resource template."""
    from ..servers.lock import lock_text

    contract = probe(target, timeout)
    changed = write_files({output: lock_text(contract)})
    click.echo(f"{output}: {_counts(contract)}; {'written' if changed else 'unchanged'}")


@click.command("check")
@with_target
@click.option("--lock", "locked", type=FILE, metavar="FILE", default=_LOCK, show_default=True, help="The lock.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="review",
    show_default=True,
    help="Exit code 1 for changes at least this bad.",
)
@report_errors
def check(
    target: ServerTarget,
    timeout: float,
    locked: Path,
    form: str,
    fail_on: Severity,
) -> None:
    """Compare a live server with its lock. Exit code 0: nothing that matters; 1: it does; 2: they cannot be compared."""
    from ..servers.compare import compare
    from ..servers.lock import read_lock
    from ..servers.report import REPORTS

    before = read_lock(locked)
    changes = compare(before, probe(target, timeout))
    click.echo(REPORTS[form](changes, locked.as_posix()), nl=False)
    if any(SEVERITIES.index(change.severity) >= SEVERITIES.index(fail_on) for change in changes):
        raise SystemExit(DIFFERENT)


def _counts(contract: Contract) -> str:
    counts = [(len(contract.tools), "tool"), (len(contract.prompts), "prompt")]
    counts.append((len(contract.resource_templates), "resource template"))
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)
