"""The command `explore`."""

from __future__ import annotations

from pathlib import Path

import click

from ..output import write_files
from ..paths import data_path
from ..reports.explorer.content import content
from ..reports.explorer.page import page
from .options import FILE, open_schemas, report_errors, schema_option


@click.command("explore", short_help="Write a page with all revisions.")
@click.option("--output", type=FILE, metavar="FILE", default="mcp.html", show_default=True, help="The page to write.")
@schema_option
@report_errors
def explore(output: str | Path, schema: Path | None) -> None:
    """Write one HTML page with the methods and types of every revision, and the changes between any two."""
    schemas = open_schemas(schema)
    revisions = [schemas.revision(name) for name in schemas.pins]
    text = page(content(revisions), data_path("templates"))
    write_files({Path(output): text})
    click.echo(f"{', '.join(schemas.pins)}: {len(text.encode()) / 1024:.0f} KiB written to {output}")
