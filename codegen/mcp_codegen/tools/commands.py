"""The commands `tools`, `lock` and `check`: a server goes in, wrappers, a lock or a report come out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..console import DIFFERENT, FILE, FOLDER, one_line
from ..errors import CodegenError
from ..homes import template_folders
from ..write import write_files
from .change import SEVERITIES, Severity
from .contract import Contract
from .reach import Target, ask, configured, named

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_LOCK: Final = "mcp-lock.json"


def _server(command: CommandT) -> CommandT:
    """The options that say which server is meant."""
    options = (
        click.option(
            "--from", "source", metavar="SERVER", help="A command that starts it, its URL, or a saved list (.json)."
        ),
        click.option("--config", type=FILE, metavar="FILE", help="A claude_desktop_config.json; needs --server."),
        click.option("--server", metavar="NAME", help="Which server of the configuration."),
        click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds the server has."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _target(source: str | None, config: Path | None, server: str | None) -> Target:
    if source is not None and config is None and server is None:
        return named(source)
    if source is None and config is not None and server is not None:
        return configured(config, server)
    raise CodegenError("say which server is meant: with --from, or with --config and --server")


@click.command("tools")
@_server
@click.option("--output", type=FILE, metavar="FILE", help="The module to write. Default: standard output.")
@click.option("--templates", "own", type=FOLDER, metavar="DIR", help="Templates that stand before ours, file by file.")
@one_line
def tools(
    source: str | None,
    config: Path | None,
    server: str | None,
    timeout: float,
    output: Path | None,
    own: Path | None,
) -> None:
    """Write a module with a typed function for each tool, prompt and resource template of a server."""
    from .wrap import wrap  # Loads datamodel-code-generator and black.

    target = _target(source, config, server)
    contract = ask(target, timeout)
    text = wrap(contract, str(target), template_folders(own))
    if output is None:
        click.echo(text, nl=False)
        return
    write_files({output: text})
    click.echo(f"{output}: {_counts(contract)}")


@click.command("lock")
@_server
@click.option("--output", type=FILE, metavar="FILE", default=_LOCK, show_default=True, help="The lock to write.")
@one_line
def lock(source: str | None, config: Path | None, server: str | None, timeout: float, output: Path) -> None:
    """Record what a server offers, with a hash for each tool, prompt and resource template."""
    from .lock import lock_text

    contract = ask(_target(source, config, server), timeout)
    changed = write_files({output: lock_text(contract)})
    click.echo(f"{output}: {_counts(contract)}; {'written' if changed else 'unchanged'}")


@click.command("check")
@_server
@click.option("--lock", "locked", type=FILE, metavar="FILE", default=_LOCK, show_default=True, help="The lock.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="review",
    show_default=True,
    help="Exit code 1 for changes at least this bad.",
)
@one_line
def check(
    source: str | None,
    config: Path | None,
    server: str | None,
    timeout: float,
    locked: Path,
    form: str,
    fail_on: Severity,
) -> None:
    """Compare a live server with its lock. Exit code 0: nothing that matters; 1: it does; 2: they cannot be compared."""
    from .compare import compare
    from .lock import read_lock
    from .report import REPORTS

    before = read_lock(locked)
    changes = compare(before, ask(_target(source, config, server), timeout))
    click.echo(REPORTS[form](changes, locked.as_posix()), nl=False)
    if any(SEVERITIES.index(change.severity) >= SEVERITIES.index(fail_on) for change in changes):
        raise SystemExit(DIFFERENT)


def _counts(contract: Contract) -> str:
    counts = (len(contract.tools), "tools"), (len(contract.prompts), "prompts")
    return ", ".join(
        f"{count} {what}" for count, what in (*counts, (len(contract.resource_templates), "resource templates"))
    )
