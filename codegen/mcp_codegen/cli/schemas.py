"""The commands `list`, `verify`, `clarity`, `diff` and `explore`: revisions in a folder of schemas; what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import click
from rich.console import Console
from rich.table import Table

from ..catalog import SchemaCatalog
from ..errors import CodegenError
from ..importer.importer import find_folder, read_schema_folder, verify_revision
from ..model.ir import Object, Revision
from ..output import plain, write_files
from ..paths import data_path
from ..reports.changes import Severity, deprecations
from ..reports.clarity import as_json as clarity_json
from ..reports.clarity import as_markdown as clarity_markdown
from ..reports.clarity import as_text, clarity_report
from ..reports.compare import compare
from ..reports.explorer import content, page
from ..reports.renames import collapse, known_renames
from ..reports.report import DiffReport, as_html, as_json, as_markdown, print_text, read_waivers, waive
from .options import DIFFERENT, FILE, from_option, open_schemas, report_errors, schema_option

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
_LEVELS: Final = {"breaking": Severity.BREAKING, "deprecated": Severity.DEPRECATED, "any": Severity.COMPATIBLE}


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
            click.echo(clarity_markdown(reports), nl=False)
        case "json":
            click.echo(clarity_json(reports), nl=False)
        case _:
            click.echo("".join(as_text(report) for report in reports), nl=False)
    if any(report.findings for report in reports):
        raise SystemExit(DIFFERENT)


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
@click.option("--like", default="", metavar="R", help="The revision a folder was made from, whose overlay rows it has.")
@schema_option
@report_errors
def diff(
    *, older: str, newer: str, form: str, waivers: Path | None, fail_on: str, like: str, schema: Path | None
) -> None:
    """Show what changed from OLDER to NEWER, each a revision or a folder with a schema.

    \b
    Exit code 0: no change of that severity; 1: there is one; 2: the input is wrong.
    """
    schemas = open_schemas(schema)
    if like:
        schemas.require_revision(like)
    before, after = open_revision(schemas, older, like), open_revision(schemas, newer, like)
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


def open_revision(schemas: SchemaCatalog, name: str, like: str = "") -> Revision:
    """Return a revision by its id, or the one in a folder: a normalized schema, or an official schema.ts. `like` is the
    revision that it was made from."""
    if name in schemas.pins:
        return schemas.revision(name)

    folder = Path(name)
    if not folder.is_dir():
        raise CodegenError(f"{name!r} is neither a revision nor a folder; the revisions are {', '.join(schemas.pins)}")
    id = folder.resolve().name
    return schemas.derive(id, read_schema_folder(folder, id), like=like)


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
