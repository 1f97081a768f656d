"""The commands `list`, `import` and `verify`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import click
from rich.console import Console
from rich.table import Table

from ..catalog import SchemaCatalog
from ..errors import CodegenError, SchemaError
from ..model.docs import undocumented
from ..model.ir import Object, Revision
from ..output import plain, write_files
from ..paths import data_path
from ..reports.clarity import ClarityReport, as_json, as_text, clarity_report
from .options import DIFFERENT, FAILED, FILE, FOLDER, open_schemas, report_errors, schema_option

_from_option: Final = click.option(
    "--from", "source", type=FOLDER, required=True, metavar="DIR", help="A checkout of the specification's repository."
)


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


@click.command("import", short_help="Import an official schema.")
@_from_option
@click.option(
    "--revision",
    "revisions",
    multiple=True,
    required=True,
    metavar="R",
    help="Import this revision. May be repeated, oldest first.",
)
@click.option("--follows", metavar="R", help="The revision before it. Default: that of its pins, else the newest one.")
@click.option("--commit", metavar="SHA", help="The commit of the official files. Default: that of the checkout DIR.")
@click.option("--like", default="", metavar="R", help="The revision it was made from, whose overlay rows apply too.")
@click.option(
    "--report",
    type=FILE,
    metavar="FILE",
    help="A file for a JSON report of what is unclear.",
)
@schema_option
@report_errors
def import_schema(
    source: Path,
    revisions: tuple[str, ...],
    follows: str | None,
    commit: str | None,
    like: str,
    report: Path | None,
    schema: Path | None,
) -> None:
    """Import an official schema.ts and schema.json as a normalized schema, if the two agree.

    Exit code 2, with a report, if something cannot be derived from it.
    """
    from ..importer.importer import commit_of  # Imports tree-sitter.

    commit_id = commit or commit_of(source)
    if not commit_id:
        raise CodegenError(f"{source}: is not a git checkout; pass its commit with --commit")
    root = schema or data_path("schema")
    reports = [_import(source, root, revision, follows, commit_id, like, report) for revision in revisions]
    unclear = [item for item in reports if item.findings]
    if report is not None:
        write_files({report: as_json(reports)})
    for item in unclear:
        click.echo(plain(as_text(item)), nl=False, err=True)
    if unclear:
        raise SystemExit(FAILED)


def _import(
    source: Path, root: Path, revision: str, follows: str | None, commit: str, like: str, report: Path | None
) -> ClarityReport:
    """Import one revision and return its clarity report. A revision whose files contradict each other is not
    written."""
    from ..importer.importer import find_folder, import_revision

    schemas = SchemaCatalog(root)
    if like:
        schemas.require_revision(like)
    default_follows = schemas.pins[revision].follows if revision in schemas.pins else next(reversed(schemas.pins), "")
    previous = follows if follows is not None else default_follows
    try:
        result = import_revision(find_folder(source, revision), revision, previous, commit, like)
    except SchemaError as error:
        if report is not None:
            write_files({report: as_json([ClarityReport(revision, error.findings)])})
        raise
    folder = root / revision
    changed = write_files({folder / "schema.json": result.schema, folder / "pins.toml": result.pins})
    agree = click.style(f"{result.definitions} of {result.definitions} definitions agree", fg="green")
    click.echo(f"{revision}: {agree}; follows {previous or 'nothing'}; {'written' if changed else 'unchanged'}")
    catalog = SchemaCatalog(root)
    with suppress(CodegenError):  # The report has a finding for types that cannot be read.
        _report_undocumented(catalog, revision)
    return clarity_report(catalog, revision)


def _report_undocumented(schemas: SchemaCatalog, revision: str) -> None:
    missing = undocumented(schemas.types(revision), schemas.docs)
    if missing:
        click.echo(f"{revision}: {len(missing)} names without a sentence in docs.toml: {', '.join(missing)}")


@click.command("verify", short_help="Check if an official schema has changed.")
@_from_option
@click.option("--revision", "revisions", multiple=True, metavar="R", help="Verify this revision. Default: all.")
@schema_option
@report_errors
def verify(source: Path, revisions: tuple[str, ...], schema: Path | None) -> None:
    """Compare the normalized schemas with the official files. Exit code 1 if they differ."""
    from ..importer.importer import find_folder, verify_revision

    schemas = open_schemas(schema)
    changed = False
    for revision in revisions or schemas.pins:
        normalized, _ = schemas.normalized(revision)
        lines = verify_revision(find_folder(source, revision), normalized, revision, schemas.pins[revision])
        changed = changed or bool(lines)
        verdict = click.style("changed", fg="red") if lines else click.style("equal", fg="green")
        click.echo(f"{revision}: {verdict}, {len(normalized['$defs'])} definitions")
        for line in lines:
            click.echo(f"  {plain(line)}")
    if changed:
        raise SystemExit(DIFFERENT)
