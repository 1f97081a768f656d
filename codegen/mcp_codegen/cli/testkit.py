"""The commands `vectors`, `mock`, `record` and `replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import CodegenError
from ..output import plain, write_files
from ..testkit.messages import MessageFactory
from ..testkit.programs import record as run_recording_proxy
from ..testkit.programs import replay_as_client, replay_as_server, run_mock_client, serve_mock
from ..testkit.vectors import conversions as convert_vectors
from ..testkit.vectors import line_schema
from ..testkit.vectors import vectors as generate_vectors
from .options import DIFFERENT, FILE, open_schemas, report_errors, schema_option

if TYPE_CHECKING:
    from ..testkit.messages import MessageFactory

_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_command = click.argument("command", nargs=-1, type=click.UNPROCESSED)
_revision_option = click.option("--revision", required=True, metavar="R", help="The revision to use.")
_seed_option = click.option("--seed", type=int, default=1, show_default=True, help="The seed of the generated data.")
_timeout_option = click.option(
    "--timeout", type=float, default=30.0, show_default=True, metavar="S", help="Seconds to wait for a line."
)


@click.command("vectors", short_help="Write valid and invalid messages.")
@click.option("--revision", metavar="R", help="The revision to use.")
@_seed_option
@click.option(
    "--each", "count", type=click.IntRange(1), default=4, show_default=True, help="The number of valid instances."
)
@click.option("--conversions", is_flag=True, help="Write what each valid instance becomes in each other revision, too.")
@click.option("--output", type=FILE, metavar="FILE", help="The file to write. Default: standard output.")
@click.option("--describe", is_flag=True, help="Write the JSON Schema of a line instead.")
@schema_option
@report_errors
def vectors(
    revision: str | None,
    seed: int,
    count: int,
    conversions: bool,
    output: str | Path | None,
    describe: bool,
    schema: Path | None,
) -> None:
    """Write test vectors as JSON lines: valid instances of every message of a revision, near misses of them with the
    class of their error, conversations, and with --conversions what the valid ones are in other revisions."""
    if describe:
        lines = [json.dumps(line_schema(), indent=1)]
    elif revision is None:
        raise CodegenError("vectors needs --revision R, or --describe for the JSON Schema of a line")
    else:
        schemas = open_schemas(schema)
        made = list(generate_vectors(schemas.revision(revision), schemas.normalized(revision)[0], seed, count))
        made += convert_vectors(schemas, revision, made) if conversions else ()
        lines = [json.dumps(line, ensure_ascii=False) for line in made]
    text = "\n".join(lines) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_files({Path(output): text})
        click.echo(f"{revision or 'schema'}: {len(lines)} lines written to {output}")


@click.group("mock", short_help="Run a mock client or server over stdio.")
def mock() -> None:
    """Run one side of a connection over stdio, with valid generated data."""


@mock.command("server")
@_revision_option
@_seed_option
@schema_option
@report_errors
def mock_server(revision: str, seed: int, schema: Path | None) -> None:
    """Run a mock server that answers every method."""
    serve_mock(_messages(revision, seed, schema))


@mock.command("client", context_settings=_COMMAND)
@_revision_option
@_seed_option
@_timeout_option
@schema_option
@_command
@report_errors
def mock_client(revision: str, seed: int, timeout: float, schema: Path | None, command: tuple[str, ...]) -> None:
    """Start the server COMMAND, send it every declared request, and answer the requests it sends.

    Exit code 0: all responses are valid, or errors; 1: some are invalid; 2: the connection fails.
    """
    if not command:
        raise CodegenError(
            "COMMAND is missing; pass the command that starts the server: mcp-codegen mock client --revision R COMMAND…"
        )
    verdicts = run_mock_client(_messages(revision, seed, schema), command, timeout)
    if len(verdicts) == 1 and verdicts[0].passed:
        raise CodegenError(
            f"the connection was not initialized: {verdicts[0].method} was answered with {verdicts[0].text}"
        )
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("method", "verdict", "response"):
        table.add_column(column, overflow="fold")
    for verdict in verdicts:
        mark = "[green]valid" if verdict.passed else "[red]invalid"
        table.add_row(escape(verdict.method), mark, escape(plain(verdict.text)))
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)
    if not all(verdict.passed for verdict in verdicts):
        raise SystemExit(DIFFERENT)


def _messages(revision: str, seed: int, schema: Path | None) -> MessageFactory:
    schemas = open_schemas(schema)
    return MessageFactory(schemas.revision(revision), schemas.normalized(revision)[0], seed)


@click.command("record", context_settings=_COMMAND, short_help="Record a client and a server.")
@click.argument("file", type=FILE)
@_command
@report_errors
def record(file: str | Path, command: tuple[str, ...]) -> None:
    """Relay between a client and the server COMMAND, and write the lines of both to FILE."""
    if not command:
        raise CodegenError(
            "COMMAND is missing; pass the command that starts the server: mcp-codegen record FILE COMMAND…"
        )
    raise SystemExit(run_recording_proxy(Path(file), command))


@click.command("replay", context_settings=_COMMAND, short_help="Replay one side of a recorded connection.")
@_timeout_option
@click.argument("file", type=FILE)
@_command
@report_errors
def replay(timeout: float, file: str | Path, command: tuple[str, ...]) -> None:
    """Act as the server of a recorded connection over stdio; or as its client, for the server COMMAND."""
    if command:
        replay_as_client(Path(file), command, timeout)
        click.echo(f"{file}: the server behaves as recorded")
    else:
        replay_as_server(Path(file), timeout)
