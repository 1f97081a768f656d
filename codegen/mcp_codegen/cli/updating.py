"""The command `update`."""

from __future__ import annotations

from pathlib import Path

import click

from ..output import plain, write_files
from ..paths import data_path, default_output, package_folder
from ..temporary_folder import temporary_folder
from .options import FAILED, FILE, FOLDER, report_errors, schema_option, type_check_option


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
    from ..importer.importer import SOURCE  # Imports tree-sitter.
    from ..swap import write_folders
    from ..update.markdown import as_markdown
    from ..update.preparation import UpdateSettings, prepare_update  # Imports datamodel-code-generator and black.
    from ..update.repository import read_snapshot

    root, package = schema or data_path("schema"), package_folder(output or default_output())
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
