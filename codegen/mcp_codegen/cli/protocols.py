"""The commands `protocol`, `plugin`, `ir`, `official` and `quickstart`: what is generated beside our own bindings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click

from ..catalog import SchemaCatalog
from ..errors import CodegenError, is_object
from ..output import compare_files, write_files, write_folder, write_new_files
from ..paths import package_folder, template_folders
from ..protocols.protocol import read_protocol, render_protocol
from ..render.ir_json import dump
from ..render.ir_json import schema as contract
from ..render.official_package import render_package
from ..render.quickstart import read_data, render
from .options import DIFFERENT, FILE, FOLDER, open_schemas, report_errors, schema_option

_SECONDS: Final = 120  # The time that a plugin may take.


@click.command("protocol", short_help="Generate bindings of another JSON-RPC protocol.")
@click.argument("manifest", type=FILE)
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="The package to write.")
@click.option("--check", is_flag=True, help="Write nothing. Exit code 1 if the files are out of date.")
@report_errors
def protocol(manifest: Path, output: Path, check: bool) -> None:
    """Generate bindings of another JSON-RPC protocol, such as LSP or ACP, from its document.

    MANIFEST is a file such as protocol.toml, which names the document, its format and the two sides.
    """
    folder = package_folder(output)
    described, revision = read_protocol(manifest)
    files = render_protocol(described, revision, template_folders(), folder)
    name = f"{described.name} {revision.id}"
    if check:
        if different := compare_files(files):
            click.echo(f"{name}: {len(different)} files are out of date", err=True)
            raise SystemExit(DIFFERENT)
        click.echo(f"{name}: {len(files)} files, all up to date")
        return
    changed = write_folder(folder, files)
    click.echo(f"{name}: {len(revision.types)} types, {len(revision.methods)} messages; {len(changed)} files written")


@click.command("plugin", short_help="Generate code of another language with a program.")
@click.argument("program", nargs=-1, required=True)
@click.option("--revision", metavar="R", help="The revision to generate.")
@click.option("--protocol", "manifest", type=FILE, metavar="FILE", help="The manifest of another protocol.")
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="The folder to write.")
@click.option("--check", is_flag=True, help="Write nothing. Exit code 1 if the files are out of date.")
@schema_option
@report_errors
def plugin(
    program: tuple[str, ...],
    revision: str | None,
    manifest: Path | None,
    output: Path,
    check: bool,
    schema: Path | None,
) -> None:
    """Generate code of another language with a program.

    PROGRAM gets the IR as JSON on its standard input, and prints `{"files": {"path": "text"}}`. Its paths are inside of
    the output folder.
    """
    if (revision is None) == (manifest is None):
        raise CodegenError("pass either --revision R or --protocol FILE")
    files = _files(program, _printed(program, json.dumps(dumped(revision, manifest, schema))), output)
    if check:
        if different := compare_files(files):
            click.echo(f"{len(different)} of {len(files)} files are out of date", err=True)
            raise SystemExit(DIFFERENT)
        click.echo(f"{len(files)} files, all up to date")
        return
    changed = write_folder(output, files)
    click.echo(f"{len(changed)} of {len(files)} files written to {output}")


def _printed(program: tuple[str, ...], text: str) -> str:
    """Return what a plugin prints. Raises CodegenError with the last line of its standard error."""
    try:
        done = subprocess.run(program, input=text.encode(), capture_output=True, timeout=_SECONDS, check=False)
    except OSError as error:
        raise CodegenError(f"{program[0]}: cannot be started: {error.strerror}; pass a program on the PATH") from error
    except subprocess.TimeoutExpired as error:
        raise CodegenError(
            f"{program[0]}: still runs after {_SECONDS} s; a plugin reads to the end of its input"
        ) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing on standard error"]
        raise CodegenError(f"{program[0]}: ended with exit code {done.returncode}: {lines[-1]}")
    return done.stdout.decode(errors="replace")


def _files(program: tuple[str, ...], printed: str, output: Path) -> dict[Path, str]:
    """Return the text of each file by path. Raises CodegenError for another answer, and for a path outside."""
    try:
        files = json.loads(printed)["files"]
        json.dumps(files, ensure_ascii=False).encode()  # Half of a surrogate pair is not text.
    except (ValueError, LookupError, TypeError, RecursionError):
        files = None
    if not is_object(files) or not files or not all(isinstance(text, str) for text in files.values()):
        raise CodegenError(
            f'{program[0]}: must print {{"files": {{"path": "text"}}}} as JSON; it printed {printed[:80]!r}'
        )
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name or ":" in name or "\0" in name:
            raise CodegenError(
                f"{program[0]}: {name!r} is not a path inside of the output folder; print relative paths"
            )
    return {output / name: text for name, text in files.items()}


@click.command("ir")
@click.option("--revision", metavar="R", help="The revision to print.")
@click.option("--protocol", "manifest", type=FILE, metavar="FILE", help="The manifest of another protocol to print.")
@click.option("--json-schema", is_flag=True, help="Print the JSON Schema of the output instead.")
@schema_option
@report_errors
def ir(revision: str | None, manifest: Path | None, json_schema: bool, schema: Path | None) -> None:
    """Print the intermediate representation (IR) of a revision, which templates and plugins get, as JSON."""
    if [revision is not None, manifest is not None, json_schema].count(True) != 1:
        raise CodegenError("pass either --revision R or --json-schema, or --protocol FILE")
    document = contract() if json_schema else dumped(revision, manifest, schema)
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def dumped(revision: str | None, manifest: Path | None, schema: Path | None) -> dict[str, Any]:
    """Return the IR of a revision, or of another protocol by its manifest. Raises CodegenError."""
    if manifest is not None:
        return dump(read_protocol(manifest)[1])
    schemas = open_schemas(schema)
    return dump(schemas.revision(revision or ""), [schemas.revision(name) for name in schemas.pins])


# The command `official`: the types of the protocol as the official Python SDK has them, as files of its own.


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
        raise CodegenError(f"{name!r} is not a form in official.toml; the forms are {', '.join(forms) or 'none'}")
    ids = list(schemas.pins)
    ids = ids[: ids.index(schemas.require_revision(until or forms[name].until)) + 1]
    definitions = {id: [*schemas.normalized(id)[0]["$defs"]] for id in ids}
    return render_package(list(map(schemas.revision, ids)), forms[name], definitions, template_folders(overrides))


# The command `quickstart`: the programs of the protocol's quickstart in a language.


@click.command("quickstart", short_help="Write a server and a client in a language.")
@click.argument("language")
@click.option("--revision", metavar="R", help="What the client speaks. Default: what both sides agree on.")
@click.option("--output", type=FOLDER, metavar="DIR", help="The folder to write. Default: ./quickstart-LANGUAGE.")
@schema_option
@report_errors
def quickstart(language: str, revision: str | None, output: Path | None, schema: Path | None) -> None:
    """Write the quickstart of the protocol in LANGUAGE (python, typescript or go): a server, a client with a model, and
    their page.

    Files that exist are not overwritten.
    """
    stateless = revision is not None and open_schemas(schema).revision(revision).lifecycle.style == "stateless"
    texts = render(read_data(), language, revision, stateless)
    folder = output or Path(f"quickstart-{language}")
    write_new_files({folder / path: text for path, text in texts.items()})
    for path in texts:
        click.echo(f"written: {folder / path}")
