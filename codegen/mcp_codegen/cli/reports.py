"""The commands `diff` and `explore`: what changed between revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from rich.console import Console

from ..catalog import SchemaCatalog
from ..diff.changes import Severity, deprecations
from ..diff.compare import compare
from ..diff.renames import collapse, known_renames
from ..diff.report import DiffReport, as_html, as_json, as_markdown, print_text, read_waivers, waive
from ..errors import CodegenError
from ..model.ir import Revision
from ..output import write_files
from ..paths import data_path
from ..reports.explorer import content, page
from .options import DIFFERENT, FILE, open_schemas, report_errors, schema_option

_LEVELS: Final = {"breaking": Severity.BREAKING, "deprecated": Severity.DEPRECATED, "any": Severity.COMPATIBLE}


@click.command("diff", short_help="Show what changed between two revisions.")
@click.argument("older")
@click.argument("newer")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json", "html"]), default="text")
@click.option("--waivers", type=FILE, metavar="FILE", help="A file of accepted changes.")
@click.option(
    "--fail-on",
    type=click.Choice([*_LEVELS, "never"]),
    default="breaking",
    show_default=True,
    help="The lowest severity of a change that makes the exit code 1.",
)
@schema_option
@report_errors
def diff(older: str, newer: str, form: str, waivers: Path | None, fail_on: str, schema: Path | None) -> None:
    """Show what changed from OLDER to NEWER, each a revision or a folder with a schema.

    \b
    Exit code 0: no change of that severity; 1: there is one; 2: the input is wrong.
    """
    schemas = open_schemas(schema)
    before, after = open_revision(schemas, older), open_revision(schemas, newer)
    renames = known_renames(before, after, schemas.conversions)
    changes = waive(collapse(compare(before, after), renames), read_waivers(waivers) if waivers is not None else [])
    report = DiffReport(before.id, after.id, changes, deprecations([*_before(schemas, after), after]))
    match form:
        case "markdown":
            click.echo(as_markdown(report), nl=False)
        case "json":
            click.echo(as_json(report), nl=False)
        case "html":
            click.echo(as_html(report, data_path("templates")), nl=False)
        case _:
            console = Console()
            console.width = console.width if console.is_terminal else 200
            print_text(report, console)
    if fail_on != "never" and any(not change.waived and change.severity >= _LEVELS[fail_on] for change in changes):
        raise SystemExit(DIFFERENT)


def _before(schemas: SchemaCatalog, last: Revision) -> list[Revision]:
    """Return the revisions of the folder before this one; all of them if it is not in the folder."""
    order = list(schemas.pins)
    end = order.index(last.id) if last.id in order else len(order)
    return [schemas.revision(name) for name in order[:end]]


def open_revision(schemas: SchemaCatalog, name: str) -> Revision:
    """Return a revision by its id, or the one in a folder: a normalized schema, or an official schema.ts."""
    if name in schemas.pins:
        return schemas.revision(name)
    from ..importer.importer import read_schema_folder  # Imports tree-sitter.

    folder = Path(name)
    if not folder.is_dir():
        raise CodegenError(f"{name!r} is neither a revision nor a folder; the revisions are {', '.join(schemas.pins)}")
    id = folder.resolve().name
    return schemas.derive(id, read_schema_folder(folder, id))


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
