"""The commands `import` and `update`."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from ..catalog import UNCLEAR, Candidate, SchemaCatalog, check_id
from ..errors import CodegenError, SchemaError
from ..importer.importer import SOURCE, commit_of, find_folder, import_revision
from ..model.overlay import undocumented
from ..output import plain, temporary_folder, write_files, write_folder, write_folders
from ..paths import data_path, default_output, package_folder
from ..reports.clarity import ClarityReport, as_json, as_text, clarity_report
from ..update.preparation import UpdateSettings, as_markdown, prepare_update
from ..update.repository import read_snapshot
from ..update.trial import try_revision
from .options import FAILED, FILE, FOLDER, from_option, open_schemas, report_errors, schema_option, type_check_option


@dataclass(frozen=True, slots=True)
class _Settings:
    """The options of an import that hold for all its revisions."""

    source: Path
    root: Path
    follows: str | None
    commit: str
    like: str
    report: Path | None
    type_check: bool


@click.command("import", short_help="Import an official schema.")
@from_option
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
@click.option("--report", type=FILE, metavar="FILE", help="A file for a JSON report of what is unclear.")
@type_check_option
@schema_option
@report_errors
def import_schema(
    *,
    source: Path,
    revisions: tuple[str, ...],
    follows: str | None,
    commit: str | None,
    like: str,
    report: Path | None,
    type_check: bool,
    schema: Path | None,
) -> None:
    """Import an official schema.ts and schema.json as a normalized schema, if the two agree.

    The bindings of the revision are generated in a temporary folder, imported, and hold a conversation. Exit code 2,
    with a report, if something cannot be derived or does not work: the revision is then set aside, in the folder
    `unclear`, and no other revision is affected.
    """
    commit_id = commit or commit_of(source)
    if not commit_id:
        raise CodegenError(f"{source}: is not a git checkout; pass its commit with --commit")
    root = schema or data_path("schema")
    _begin(root)
    settings = _Settings(source, root, follows, commit_id, like, report, type_check)
    reports = [_import(check_id(revision), settings) for revision in revisions]
    unclear = [item for item in reports if item.findings]
    if report is not None:
        write_files({report: as_json(reports)})
    for item in unclear:
        click.echo(plain(as_text(item)), nl=False, err=True)
    if unclear:
        raise SystemExit(FAILED)


def _begin(root: Path) -> None:
    """Make a folder of schemas that does not exist: a copy of ours, since a draft needs its rows and its releases."""
    ours = data_path("schema")
    if not root.exists():
        files = [path for path in ours.rglob("*") if path.is_file()]
        write_folder(root, {root / path.relative_to(ours): path.read_text(encoding="utf-8") for path in files})


def _import(revision: str, settings: _Settings) -> ClarityReport:
    """Import one revision and return its clarity report. A revision whose files contradict each other is not
    written."""
    schemas = SchemaCatalog(settings.root)
    if settings.like:
        schemas.require_revision(settings.like)
    default_follows = schemas.pins[revision].follows if revision in schemas.pins else next(reversed(schemas.pins), "")
    previous = settings.follows if settings.follows is not None else default_follows
    try:
        folder = find_folder(settings.source, revision)
        result = import_revision(folder, revision, previous, settings.commit, settings.like)
        schema = schemas.without_covered_texts(revision, result.schema)
    except SchemaError as error:
        if settings.report is not None:
            write_files({settings.report: as_json([ClarityReport(revision, error.findings)])})
        raise
    catalog = SchemaCatalog(settings.root, Candidate(result.pins, schema))
    report = _examine(catalog, revision, settings.type_check)
    apart = settings.root / UNCLEAR / revision
    place = apart if report.findings else settings.root / revision
    changed = write_folder(place, {place / "schema.json": schema, place / "pins.toml": result.pins.text()})
    if not report.findings and apart.is_dir():
        shutil.rmtree(apart)
    agree = click.style(f"{result.definitions} of {result.definitions} definitions agree", fg="green")
    written = f"set aside in {place}" if report.findings else "written" if changed else "unchanged"
    click.echo(f"{revision}: {agree}; follows {previous or 'nothing'}; {written}")
    with suppress(CodegenError):  # The report has a finding for types that cannot be read.
        _report_undocumented(catalog, revision)
    return report


def _examine(catalog: SchemaCatalog, revision: str, type_check: bool) -> ClarityReport:
    """Return the clarity report of a candidate; if everything can be derived, its bindings are tried."""
    report = clarity_report(catalog, revision)
    if report.findings:
        return report

    return ClarityReport(revision, try_revision(catalog, revision, type_check=type_check))


def _report_undocumented(schemas: SchemaCatalog, revision: str) -> None:
    missing = undocumented(schemas.types(revision), schemas.docs)
    if missing:
        click.echo(f"{revision}: {len(missing)} names without a sentence in docs.toml: {', '.join(missing)}")


@click.command("update", short_help="Follow the specification's repository.")
@click.option(
    "--from",
    "source",
    metavar="URL-OR-DIR",
    help="A checkout or a bare repository, or a URL that git can fetch. Default: the official repository.",
)
@click.option("--ref", default="HEAD", show_default=True, metavar="REF", help="The tag, branch or commit to read.")
@click.option(
    "--revision",
    "revisions",
    multiple=True,
    metavar="R",
    help="Import this revision, new or not. May be repeated. Default: releases that are missing, and the draft.",
)
@click.option("--report", type=FILE, metavar="FILE", help="A file for the report, as Markdown.")
@click.option("--output", type=FOLDER, metavar="DIR", help="The package. Default: as for `mcp-codegen --revision`.")
@type_check_option
@schema_option
@report_errors
def update(
    *,
    source: str | None,
    ref: str,
    revisions: tuple[str, ...],
    report: Path | None,
    output: Path | None,
    type_check: bool,
    schema: Path | None,
) -> None:
    """Import what is new in the specification's repository, and generate its bindings.

    Official files are read with git. Releases that are missing here, and the draft if it has changed, are imported,
    compared with the revision before them, generated, type-checked, and hold a conversation. Names without a
    description get an empty row in docs.toml. All files change in one step, at the end. Exit code 2, with a report
    and without any other change, if something does not work.
    """
    root, package = open_schemas(schema).root, package_folder(output or default_output())
    settings = UpdateSettings(root, package, revisions, type_check)
    with temporary_folder() as work:
        (folder := work / "official").mkdir()
        snapshot = read_snapshot(source or SOURCE, ref, folder)
        click.echo(plain(f"{snapshot.source}: {ref} is {snapshot.commit[:12]} of {snapshot.day}"))
        result = prepare_update(snapshot, settings, work, click.echo)
    if not result.findings:
        changed = write_folders({root: result.schemas, package: result.package}, result.removed)
        click.echo(f"{len(changed)} files written, {len(result.removed)} removed" if changed else "nothing to write")
    if report is not None:
        write_files({report: as_markdown(result)})
    for finding in result.findings:
        click.echo(plain(f"{finding.kind} ({finding.rule}) at {finding.at or 'the schema'}: {finding.text}"), err=True)
    if result.findings:
        click.echo("nothing was written" + (f"; the report is {report}" if report is not None else ""), err=True)
        raise SystemExit(FAILED)
