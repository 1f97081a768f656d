"""The command line: `mcp-codegen --revision R`, `--all`, `--check`, and the subcommands."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from ..catalog import SchemaCatalog
from ..errors import CodegenError
from ..output import compare_files, write_files
from ..paths import Templates, default_output, template_folders
from ..render.standalone import with_runtime
from .clarity import clarity
from .diff import diff
from .explore import explore
from .extension import extension
from .host_config import config
from .inspect import inspect
from .ir import ir
from .options import DIFFERENT, FOLDER, open_schemas, report_errors, schema_option
from .schemas import import_schema, list_revisions, verify
from .servers import check, lock, tools
from .testkit import mock, record, replay, vectors


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--revision", "revisions", multiple=True, metavar="R", help="Generate this revision. May be repeated.")
@click.option("--all", "all_revisions", is_flag=True, help="Generate every revision in the folder of schemas.")
@click.option(
    "--output",
    type=FOLDER,
    metavar="DIR",
    help="The package to write. Default: generated/mcp_generated in a checkout, else ./mcp_generated.",
)
@click.option("--templates", "overrides", type=FOLDER, metavar="DIR", help="Templates that override the built-in ones.")
@click.option("--standalone", is_flag=True, help="Generate a package that includes the runtime.")
@click.option("--check", is_flag=True, help="Write nothing; show the changes. Exit code 1 if there are any.")
@schema_option
@click.version_option(package_name="mcp-codegen")
@click.pass_context
@report_errors
def main(
    context: click.Context,
    *,
    revisions: tuple[str, ...],
    all_revisions: bool,
    output: Path | None,
    overrides: Path | None,
    standalone: bool,
    check: bool,
    schema: Path | None,
) -> None:
    r"""Typed Python bindings of the Model Context Protocol, generated from its schema.

    \b
    mcp-codegen list                    list the revisions
    mcp-codegen --revision R            generate the bindings of one revision
    mcp-codegen --all --check           check that all bindings are up to date
    """
    if context.invoked_subcommand is not None:
        return
    if not revisions and not all_revisions:
        click.echo(context.get_help())
        return
    if standalone and output is None:
        raise CodegenError("--standalone needs --output DIR, the folder of the package")
    schemas = open_schemas(schema)
    chosen = list(schemas.pins) if all_revisions else list(dict.fromkeys(revisions))
    words = [
        "mcp-codegen",
        *(["--all"] if all_revisions else [word for revision in chosen for word in ("--revision", revision)]),
    ]
    command = shlex.join([*words, *(["--templates", str(overrides)] if overrides else [])])
    files = _render(schemas, template_folders(overrides), output or default_output(), chosen)
    if standalone and output is not None:
        files = with_runtime(files, output, command)
    command += f"{' --standalone' if standalone else ''}{f' --output {shlex.quote(str(output))}' if output else ''}"
    _write_or_check(files, check, output or default_output(), chosen, command)


def _write_or_check(files: dict[Path, str], check: bool, output: Path, chosen: list[str], command: str) -> None:
    if not check:
        changed = write_files(files)
        where = click.style(str(output), bold=True)
        click.echo(f"{', '.join(chosen)}: {len(changed)} of {len(files)} files written to {where}")
    elif diffs := compare_files(files):
        _show_diff("".join(diffs))
        click.echo(f"{len(diffs)} files are out of date. To regenerate them: {command}", err=True)
        raise SystemExit(DIFFERENT)
    else:
        click.echo(f"{', '.join(chosen)}: {len(files)} files, all up to date")


def _render(schemas: SchemaCatalog, templates: Templates, output: Path, chosen: list[str]) -> dict[Path, str]:
    from ..generate import (
        generate,  # Imports datamodel-code-generator and black, which the other commands do not need.
    )

    ids = [schemas.require_revision(revision) for revision in chosen]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("generating", total=len(ids))

        def on_progress(revision: str) -> None:
            progress.update(task, advance=1, description=f"generated {revision}")

        return generate(schemas, templates, output, ids, on_progress)


def _show_diff(diff: str) -> None:
    console = Console(soft_wrap=True)
    if console.is_terminal:
        console.print(Syntax(diff, "diff", background_color="default", word_wrap=False))
    else:
        click.echo(diff, nl=False)


for _command in (
    list_revisions,
    import_schema,
    verify,
    extension,
    diff,
    clarity,
    ir,
    explore,
    tools,
    lock,
    check,
    config,
    inspect,
    vectors,
    mock,
    record,
    replay,
):
    main.add_command(_command)
