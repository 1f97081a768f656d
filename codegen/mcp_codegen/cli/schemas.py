"""The commands `list`, `verify` and `clarity`: the revisions in a folder of schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import click
from rich.console import Console
from rich.table import Table

from ..model.ir import Object, Revision
from ..output import plain
from ..reports.clarity import as_json, as_markdown, as_text, clarity_report
from .options import DIFFERENT, from_option, open_schemas, report_errors, schema_option


@click.command("list", short_help="List the revisions.")
@schema_option
@report_errors
def list_revisions(schema: Path | None) -> None:
    """List the revisions: lifecycle, number of messages and types, and sources."""
    schemas = open_schemas(schema)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column, side in _COLUMNS.items():
        table.add_column(column, justify=side, no_wrap=True)
    for revision, pins in schemas.pins.items():
        derived = schemas.revision(revision)
        table.add_row(
            f"[bold]{revision}",
            derived.lifecycle.style,
            *_counts(derived),
            pins.commit[:12],
            pins.sha256["schema.ts"][:12],
        )
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)
    if schemas.unclear:
        click.echo(f"\nset aside, for their findings (mcp-codegen clarity lists them): {', '.join(schemas.unclear)}")


_COLUMNS: Final[dict[str, Literal["left", "right"]]] = {
    "revision": "left",
    "lifecycle": "left",
    "client requests": "right",
    "server requests": "right",
    "notifications": "right",
    "types": "right",
    "commit": "left",
    "schema.ts sha256": "left",
}


def _counts(revision: Revision) -> list[str]:
    """Return the number of requests in each direction, of notifications, and of types."""
    requests = [row.direction for row in revision.methods if row.kind != "notification"]
    notifications = len(revision.methods) - len(requests)
    types = sum(isinstance(type, Object) for type in revision.types.values())
    return [
        str(requests.count("client_to_server")),
        str(requests.count("server_to_client")),
        str(notifications),
        str(types),
    ]


@click.command("verify", short_help="Check if an official schema has changed.")
@from_option
@click.option("--revision", "revisions", multiple=True, metavar="R", help="Verify this revision. Default: all.")
@schema_option
@report_errors
def verify(source: Path, revisions: tuple[str, ...], schema: Path | None) -> None:
    """Compare the normalized schemas with the official files. Exit code 1 if they differ."""
    from ..importer.importer import find_folder, verify_revision

    schemas = open_schemas(schema)
    changed = False
    for revision in revisions or (*schemas.pins, *schemas.unclear):
        catalog = schemas.with_unclear(revision)
        normalized, _ = catalog.normalized(revision)
        lines = verify_revision(find_folder(source, revision), normalized, revision, catalog.pins[revision])
        changed = changed or bool(lines)
        verdict = click.style("changed", fg="red") if lines else click.style("equal", fg="green")
        click.echo(f"{revision}: {verdict}, {len(normalized['$defs'])} definitions")
        for line in lines:
            click.echo(f"  {plain(line)}")
    if changed:
        raise SystemExit(DIFFERENT)


@click.command("clarity")
@click.option("--revision", "revisions", multiple=True, metavar="R", help="Report on this revision. Default: all.")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text")
@schema_option
@report_errors
def clarity(revisions: tuple[str, ...], form: str, schema: Path | None) -> None:
    """Report what the schemas leave unclear. Exit code 1 if something cannot be derived because of it."""
    schemas = open_schemas(schema)
    catalogs = {revision: schemas.with_unclear(revision) for revision in revisions or (*schemas.pins, *schemas.unclear)}
    reports = [clarity_report(catalog, catalog.require_revision(revision)) for revision, catalog in catalogs.items()]
    match form:
        case "markdown":
            click.echo(as_markdown(reports), nl=False)
        case "json":
            click.echo(as_json(reports), nl=False)
        case _:
            click.echo("".join(as_text(report) for report in reports), nl=False)
    if any(report.findings for report in reports):
        raise SystemExit(DIFFERENT)
