"""The command `clarity`."""

from __future__ import annotations

from pathlib import Path

import click

from ..reports.clarity import as_json, as_markdown, as_text, clarity_report
from .options import DIFFERENT, open_schemas, report_errors, schema_option


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
