"""The command `official`: the types of the protocol as the official Python SDK has them, as files of its own."""

from __future__ import annotations

from pathlib import Path

import click

from ..catalog import SchemaCatalog
from ..errors import CodegenError
from ..output import compare_files, write_files
from ..paths import template_folders
from ..render.official_package import render_package
from .options import DIFFERENT, FOLDER, open_schemas, report_errors, schema_option


@click.command("official", short_help="Write the types of the official Python SDK.")
@click.option("--of", "name", required=True, metavar="NAME", help="What to write: mcp-types-2.3 or mcp-1.30.")
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="The folder that gets the package or module.")
@click.option("--until", metavar="R", help="The newest revision in it. Default: the newest one of that release.")
@click.option("--templates", "overrides", type=FOLDER, metavar="DIR", help="Templates that override the built-in ones.")
@click.option("--check", is_flag=True, help="Write nothing; show the changes. Exit code 1 if there are any.")
@schema_option
@report_errors
def official(
    name: str, output: Path, until: str | None, overrides: Path | None, check: bool, schema: Path | None
) -> None:
    """Write `mcp_types` of mcp-types 2.3, or the module `types` of mcp 1.30, from the schemas.

    \b
    mcp-codegen official --of mcp-types-2.3 --output DIR    the package DIR/mcp_types
    mcp-codegen official --of mcp-1.30 --output DIR         the module DIR/types.py, to stand in the package mcp
    """
    files = {output / path: text for path, text in official_files(open_schemas(schema), name, until, overrides).items()}
    if check:
        diffs = compare_files(files)
        click.echo("".join(diffs), nl=False)
        if diffs:
            raise SystemExit(DIFFERENT)
        click.echo(f"{name}: {len(files)} files, all up to date")
        return
    changed = write_files(files)
    lines = sum(text.count("\n") for text in files.values())
    click.echo(f"{name}: {len(files)} files with {lines} lines in {output}, {len(changed)} of them written")


def official_files(
    schemas: SchemaCatalog, name: str, until: str | None = None, overrides: Path | None = None
) -> dict[Path, str]:
    """Return the files of a form by their paths. Raises CodegenError for a form or a revision that does not exist."""
    forms = {form.name: form for form in schemas.forms.forms.values()}
    if name not in forms:
        raise CodegenError(f"{name!r} is no form in official.toml; the forms are {', '.join(forms) or 'none'}")
    ids = list(schemas.pins)
    ids = ids[: ids.index(schemas.require_revision(until or forms[name].until)) + 1]
    definitions = {id: [*schemas.normalized(id)[0]["$defs"]] for id in ids}
    return render_package(list(map(schemas.revision, ids)), forms[name], definitions, template_folders(overrides))
