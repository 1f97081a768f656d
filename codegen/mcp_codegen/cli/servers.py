"""The commands `tools`, `generate-cli`, `lock` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ..errors import CodegenError
from ..output import has_secrets, write_files
from ..paths import template_folders
from ..servers.contract import SEVERITIES, Contract, ContractSeverity, lock_text, read_lock
from ..servers.probe import ServerTarget, probe
from ..testkit.processes import joined_command
from .options import DIFFERENT, FILE, FOLDER, report_errors, with_target

_LOCK: Final = "mcp-lock.json"


@click.command("tools", short_help="Write typed functions for a server.")
@with_target
@click.option("--output", type=FILE, metavar="FILE", help="The module to write. Default: standard output.")
@click.option("--templates", "overrides", type=FOLDER, metavar="DIR", help="Templates that override the built-in ones.")
@report_errors
def tools(target: ServerTarget, timeout: float, output: Path | None, overrides: Path | None) -> None:
    """Write a module with a typed function for each tool, prompt and resource template of a server."""
    from ..servers.wrappers import wrap  # Imports datamodel-code-generator.

    contract = probe(target, timeout)
    text = wrap(contract, joined_command([str(target)]), template_folders(overrides))
    if output is None:
        click.echo(text, nl=False)
        return
    write_files({output: text})
    click.echo(f"{output}: {_counts(contract)}")


@click.command("generate-cli", short_help="Write a command line for a server.")
@with_target
@click.option("--output", type=FILE, metavar="FILE", help="The program to write. Default: standard output.")
@click.option("--templates", "overrides", type=FOLDER, metavar="DIR", help="Templates that override the built-in ones.")
@report_errors
def generate_cli(target: ServerTarget, timeout: float, output: Path | None, overrides: Path | None) -> None:
    """Write a program with a command for each tool of a server.

    \b
    mcp-codegen generate-cli --from server.py --output weather.py
    python weather.py forecast --city Rome

    The values of variables and headers are not written: set the variables, and pass --header to the program.
    """
    from ..servers.wrappers import tool_command  # Imports jinja2.

    if target.saved is not None:
        raise CodegenError(f"{target}: is a saved list, which cannot be called; pass a Python file, a URL or a command")
    if has_secrets(" ".join([target.url, *target.command])):
        raise CodegenError(
            f"{target}: has a user, a password or a key in its URL, which the program would contain; "
            "use a variable or --header"
        )
    contract = probe(target, timeout)
    text = tool_command(contract, target, joined_command([str(target)]), template_folders(overrides))
    if output is None:
        click.echo(text, nl=False)
        return
    write_files({output: text})
    click.echo(f"{output}: {_counts(contract)}; to run next: python {joined_command([str(output)])} --help")


@click.command("lock", short_help="Record the contract of a server.")
@with_target
@click.option("--output", type=FILE, metavar="FILE", default=_LOCK, show_default=True, help="The lock to write.")
@report_errors
def lock(target: ServerTarget, timeout: float, output: Path) -> None:
    """Record the contract of a server, with a hash for each tool, prompt and resource template."""
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
    help="The lowest severity that makes the exit code 1.",
)
@report_errors
def check(target: ServerTarget, timeout: float, locked: Path, form: str, fail_on: ContractSeverity) -> None:
    """Compare a live server with its lock.

    \b
    Exit code 0: no change of that severity; 1: there is one; 2: they cannot be compared.
    """
    from ..servers.compare import REPORTS, compare  # Imports jinja2.

    before = read_lock(locked)
    changes = compare(before, probe(target, timeout))
    click.echo(REPORTS[form](changes, locked.as_posix()), nl=False)
    if any(SEVERITIES.index(change.severity) >= SEVERITIES.index(fail_on) for change in changes):
        raise SystemExit(DIFFERENT)


def _counts(contract: Contract) -> str:
    counts = [(len(contract.tools), "tool"), (len(contract.prompts), "prompt")]
    counts.append((len(contract.resource_templates), "resource template"))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
