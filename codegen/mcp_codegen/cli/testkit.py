"""The commands of the test kit: `vectors`, `mock`, `record` and `replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import CodegenError
from ..output import write_files
from .options import DIFFERENT, FILE, open_schemas, report_errors, schema_option

if TYPE_CHECKING:
    from ..testkit.messages import Messages

_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_command = click.argument("command", nargs=-1, type=click.UNPROCESSED)
_revision_option = click.option("--revision", required=True, metavar="R", help="The revision that is spoken.")
_seed_option = click.option("--seed", type=int, default=1, show_default=True, help="What the data is generated from.")
_timeout_option = click.option(
    "--timeout", type=float, default=30.0, show_default=True, metavar="S", help="Seconds to wait for a line."
)


@click.command("vectors", short_help="Write valid and invalid messages.")
@_revision_option
@_seed_option
@click.option("--each", type=click.IntRange(1), default=4, show_default=True, help="So many valid, so many invalid.")
@click.option("--output", type=FILE, metavar="FILE", help="The file to write. Default: standard output.")
@schema_option
@report_errors
def vectors(revision: str, seed: int, each: int, output: str | Path | None, schema: Path | None) -> None:
    """Write valid and invalid instances of every message of a revision, each with its verdict, as JSON."""
    from ..testkit.vectors import vectors as made

    schemas = open_schemas(schema)
    found = made(schemas.revision(revision), schemas.normalized(revision)[0], seed, each)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_files({Path(output): text})
        click.echo(f"{revision}: {len(found['vectors'])} instances written to {output}")


@click.group("mock", short_help="Be a client or a server, over stdio.")
def mock() -> None:
    """Be one side of a conversation over stdio, with valid generated data."""


@mock.command("server")
@_revision_option
@_seed_option
@schema_option
@report_errors
def mock_server(revision: str, seed: int, schema: Path | None) -> None:
    """Be a server that answers any method."""
    from ..testkit.programs import serve_mock

    serve_mock(_messages(revision, seed, schema))


@mock.command("client", context_settings=_COMMAND)
@_revision_option
@_seed_option
@_timeout_option
@schema_option
@_command
@report_errors
def mock_client(revision: str, seed: int, timeout: float, schema: Path | None, command: tuple[str, ...]) -> None:
    """Start the server COMMAND, ask it all that it declares, and answer what it asks.

    Exit code 0: its answers are what the schema says, or errors; 1: some are not; 2: there is no conversation.
    """
    from ..testkit.programs import run_mock_client

    if not command:
        raise CodegenError("say which server is to be asked: mcp-codegen mock client --revision R COMMAND…")
    verdicts = run_mock_client(_messages(revision, seed, schema), command, timeout)
    if len(verdicts) == 1 and verdicts[0].is_right:
        raise CodegenError(f"there is no conversation: {verdicts[0].method} was answered with {verdicts[0].text}")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("method", "verdict", "answer"):
        table.add_column(column, overflow="fold")
    for each in verdicts:
        table.add_row(escape(each.method), "[green]right" if each.is_right else "[red]wrong", escape(each.text))
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)
    if not all(each.is_right for each in verdicts):
        raise SystemExit(DIFFERENT)


def _messages(revision: str, seed: int, schema: Path | None) -> Messages:
    from ..testkit.messages import Messages  # Loads jsonschema.

    schemas = open_schemas(schema)
    return Messages(schemas.revision(revision), schemas.normalized(revision)[0], seed)


@click.command("record", context_settings=_COMMAND, short_help="Keep what a client and a server say.")
@click.argument("file", type=FILE)
@_command
@report_errors
def record(file: str | Path, command: tuple[str, ...]) -> None:
    """Stand between a client and the server COMMAND, and write what both say to FILE."""
    from ..testkit.programs import record as recorded

    if not command:
        raise CodegenError("say which server is to be recorded: mcp-codegen record FILE COMMAND…")
    raise SystemExit(recorded(Path(file), command))


@click.command("replay", context_settings=_COMMAND, short_help="Be one side of what was recorded.")
@_timeout_option
@click.argument("file", type=FILE)
@_command
@report_errors
def replay(timeout: float, file: str | Path, command: tuple[str, ...]) -> None:
    """Be the server of a recorded conversation over stdio; or its client, for the server COMMAND."""
    from ..testkit.programs import replay_as_client, replay_as_server

    if command:
        replay_as_client(Path(file), command, timeout)
        click.echo(f"{file}: the server says what was recorded")
    else:
        replay_as_server(Path(file), timeout)
