"""Write or check generated bindings: `mcp-codegen --revision R` and `--all`."""

from __future__ import annotations

import gc
import json
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from ..cache import cached, generator_digest, tree_digest
from ..catalog import SchemaCatalog
from ..errors import CodegenError
from ..model.ir import module_name
from ..output import compare_files, write_folder
from ..paths import Templates, default_output, package_folder, template_folders
from ..render.standalone import with_runtime
from ..testkit.processes import joined_command
from .options import DIFFERENT, open_schemas


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `mcp-codegen --revision R`: folders, or None for the built-in ones."""

    output: Path | None
    overrides: Path | None
    schema: Path | None
    standalone: bool
    check: bool

    def command(self, revisions: list[str] | None) -> str:
        """Return the command that writes these bindings again, without the options of the output."""
        words = ["--all"] if revisions is None else [word for name in revisions for word in ("--revision", name)]
        for option, folder in (("--schema", self.schema), ("--templates", self.overrides)):
            words += [option, str(folder)] if folder is not None else []
        return shlex.join(["mcp-codegen", *words])


def write_bindings(revisions: list[str] | None, settings: Settings) -> None:
    """Write or check the bindings of these revisions, None for all. Exit code 1 if a check has a difference.

    Raises CodegenError.
    """
    if settings.standalone and settings.output is None:
        raise CodegenError("--standalone needs --output DIR, the folder of the package")
    output = package_folder(settings.output or default_output())
    schemas = open_schemas(settings.schema)
    chosen = list(schemas.pins) if revisions is None else revisions
    if not chosen:
        raise CodegenError(f"{schemas.root}: has findings for each of its revisions; mcp-codegen clarity lists them")
    command = settings.command(revisions)
    files = _render(schemas, settings.overrides, output, chosen)
    if settings.standalone:
        files = with_runtime(files, output, command)
    command += " --standalone" * settings.standalone
    command += f" --output {joined_command([str(settings.output)])}" if settings.output is not None else ""
    if settings.check:
        _check(files, chosen, command)
    else:
        _write(files, output, [module_name(name) for name in chosen], chosen, command)


def _write(files: dict[Path, str], output: Path, modules: list[str], chosen: list[str], command: str) -> None:
    changed = write_folder(output, files)
    where = click.style(str(output), bold=True)
    if not changed:
        click.echo(f"{', '.join(chosen)}: all {len(files)} files in {where} are up to date")
        return
    rest = len(files) - len(changed)
    unchanged = f"; the other {rest} were up to date" if rest else ""
    click.echo(f"{', '.join(chosen)}: {len(changed)} file{'s' * (len(changed) != 1)} written to {where}{unchanged}")
    folder = output.resolve().parent
    place = "" if folder == Path.cwd() else f"  (with {folder} on PYTHONPATH)"
    package = output.resolve().name
    click.echo(f"to import: from {package}.{modules[-1]} import Client, Server, types{place}")
    if output / "app.py" in files:
        click.echo(f"           from {package} import App, connect{place}")
    click.echo(f"to run next: {command} --check  (in CI: exit code 1 if the files are out of date)")


def _check(files: dict[Path, str], chosen: list[str], command: str) -> None:
    if diffs := compare_files(files):
        _show_diff("".join(diffs))
        number = "1 file is" if len(diffs) == 1 else f"{len(diffs)} files are"
        click.echo(f"{number} out of date. To regenerate them: {command}", err=True)
        raise SystemExit(DIFFERENT)
    click.echo(f"{', '.join(chosen)}: {len(files)} files, all up to date")


def _render(schemas: SchemaCatalog, overrides: Path | None, output: Path, chosen: list[str]) -> dict[Path, str]:
    ids = [schemas.require_revision(revision) for revision in chosen]
    templates = template_folders(overrides)
    present = [name for name in schemas.pins if name in ids or (output / module_name(name) / "__init__.py").is_file()]
    parts = [generator_digest(), tree_digest(schemas.root), *map(tree_digest, templates), json.dumps([ids, present])]
    text = cached("output", parts, partial(_rendered, schemas, templates, output, ids))
    return {output / name: module for name, module in json.loads(text).items()}


def _rendered(schemas: SchemaCatalog, templates: Templates, output: Path, ids: list[str]) -> str:
    """Return the files as JSON, by their paths in the folder."""
    from ..generate import generate  # With datamodel-code-generator and jinja2, which a full cache does not need.

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("generating", total=len(ids))

        def on_progress(revision: str) -> None:
            progress.update(task, advance=1, description=f"generated {revision}")

        with _without_collection():
            files = generate(schemas, templates, output, ids, on_progress)
    return json.dumps({path.relative_to(output).as_posix(): text for path, text in files.items()})


@contextmanager
def _without_collection() -> Generator[None]:
    """Collect no garbage in a block: a generation takes 100 MiB, and a sixth of its time would be collections."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _show_diff(diff: str) -> None:
    console = Console(soft_wrap=True)
    if console.is_terminal:
        console.print(Syntax(diff, "diff", background_color="default", word_wrap=False))
    else:
        click.echo(diff, nl=False)
