"""The commands that list, import and verify schemas."""

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
from ..output import write_files
from ..paths import data_path
from ..reports.clarity import Clarity, as_json, as_text, clarity_of
from .options import (
    DIFFERENT,
    FAILED,
    FILE,
    FOLDER,
    open_schemas,
    report_errors,
    schema_option,
)

_from_option: Final = click.option(
    "--from", "source", type=FOLDER, required=True, metavar="DIR", help="A checkout of the specification's repository."
)


@click.command("list", short_help="Show the revisions there are.")
@schema_option
@report_errors
def list_revisions(schema: Path | None) -> None:
    """Show the revisions: what they follow, what they hold, and what they were made from."""
    schemas = open_schemas(schema)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column, side in _COLUMNS.items():
        table.add_column(column, justify=side, no_wrap=True)
    for revision, pins in schemas.pins.items():
        read = schemas.revision(revision)
        table.add_row(
            f"[bold]{revision}", read.lifecycle.style, *_counts(read), pins.commit[:12], pins.sha256["schema.ts"][:12]
        )
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)


_COLUMNS: Final[dict[str, Literal["left", "right"]]] = {
    "revision": "left",
    "lifecycle": "left",
    "client asks": "right",
    "server asks": "right",
    "notifications": "right",
    "types": "right",
    "commit": "left",
    "schema.ts sha256": "left",
}


def _counts(revision: Revision) -> list[str]:
    """How many requests go each way, how many notifications, how many types."""
    asked = [row.direction for row in revision.methods if row.kind != "notification"]
    told = len(revision.methods) - len(asked)
    types = sum(isinstance(each, Object) for each in revision.types.values())
    return [str(asked.count("client_to_server")), str(asked.count("server_to_client")), str(told), str(types)]


@click.command("import", short_help="Bring in an official schema.")
@_from_option
@click.option(
    "--revision",
    "revisions",
    multiple=True,
    required=True,
    metavar="R",
    help="Import this revision. May be repeated, oldest first.",
)
@click.option(
    "--follows", metavar="R", help="The revision before it. Default: what its pins say, else the newest there is."
)
@click.option("--commit", metavar="SHA", help="The commit of the official files. Default: the one DIR has checked out.")
@click.option(
    "--like", default="", metavar="R", help="The revision it was made from, whose rows of the overlay hold too."
)
@click.option(
    "--report",
    type=FILE,
    metavar="FILE",
    help="Where to write what is unclear, as JSON.",
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
    """Make our edition of an official schema.ts and schema.json, once the two are proven to agree.

    What cannot be derived from it is reported, with exit code 2.
    """
    from ..importer.importer import commit_of  # Loads tree-sitter.

    known_commit = commit or commit_of(source)
    if not known_commit:
        raise CodegenError(f"{source}: is not a git checkout, so its commit has to be given with --commit")
    root = schema or data_path("schema")
    reports = [_import(source, root, revision, follows, known_commit, like, report) for revision in revisions]
    unclear = [each for each in reports if each.findings]
    if report is not None:
        write_files({report: as_json(reports)})
    for each in unclear:
        click.echo(as_text(each), nl=False, err=True)
    if unclear:
        raise SystemExit(FAILED)


def _import(
    source: Path, root: Path, revision: str, follows: str | None, commit: str, like: str, report: Path | None
) -> Clarity:
    """Import one revision, and say how clear it is; one whose files contradict each other is not written."""
    from ..importer.importer import find_folder, import_revision

    schemas = SchemaCatalog(root)
    if like:
        schemas.known(like)
    before = schemas.pins[revision].follows if revision in schemas.pins else next(reversed(schemas.pins), "")
    chosen = follows if follows is not None else before
    try:
        made = import_revision(find_folder(source, revision), revision, chosen, commit, like)
    except SchemaError as fault:
        if report is not None:
            write_files({report: as_json([Clarity(revision, fault.findings)])})
        raise
    folder = root / revision
    changed = write_files({folder / "schema.json": made.schema, folder / "pins.toml": made.pins})
    agree = click.style(f"{made.definitions} of {made.definitions} definitions agree", fg="green")
    click.echo(f"{revision}: {agree}; follows {chosen or 'nothing'}; {'written' if changed else 'unchanged'}")
    now = SchemaCatalog(root)
    with suppress(CodegenError):  # What the types cannot be read for is a finding of the report.
        _report_undocumented(now, revision)
    return clarity_of(now, revision)


def _report_undocumented(schemas: SchemaCatalog, revision: str) -> None:
    missing = undocumented(schemas.types(revision), schemas.docs)
    if missing:
        click.echo(f"{revision}: {len(missing)} without a sentence in docs.toml: {', '.join(missing)}")


@click.command("verify", short_help="See whether an official schema has moved.")
@_from_option
@click.option("--revision", "revisions", multiple=True, metavar="R", help="Verify this revision. Default: all.")
@schema_option
@report_errors
def verify(source: Path, revisions: tuple[str, ...], schema: Path | None) -> None:
    """Say whether our edition still equals the official files, and what moved. Exit code 1 if anything did."""
    from ..importer.importer import find_folder, verify_revision

    schemas = open_schemas(schema)
    moved = False
    for revision in revisions or schemas.pins:
        edition, _ = schemas.normalized(revision)
        lines = verify_revision(find_folder(source, revision), edition, revision, schemas.pins[revision])
        moved = moved or bool(lines)
        verdict = click.style("moved", fg="red") if lines else click.style("equal", fg="green")
        click.echo(f"{revision}: {verdict}, {len(edition['$defs'])} definitions")
        for line in lines:
            click.echo(f"  {line}")
    if moved:
        raise SystemExit(DIFFERENT)
