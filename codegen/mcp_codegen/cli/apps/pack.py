"""The command `pack`: a bundle that a host installs with one click."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ...errors import CodegenError, JsonObject, is_list, is_object
from ...output import plain, replace_user_file
from ...servers.bundle import (
    BUILT,
    MANIFESTS,
    START,
    SYSTEMS,
    Form,
    archive,
    command_form,
    files_of,
    manifest_of,
    packages_of,
    problems_of,
    project_of,
    python_form,
    read_bundle,
    starter,
    this_system,
    uv_form,
    variables_read,
)
from ...servers.contract import server_identity
from ...servers.environment import variables_of
from ...servers.probe import (
    ServerTarget,
    command_of_file,
    environment,
    is_python_file,
    probe_json,
    require_python_file,
    runs_itself,
    split_server,
)
from ...servers.registry import read_stored, table_of_npm
from ..options import DIFFERENT, FILE, FOLDER, ServerCommand, command_words, report_errors
from .running import with_env, with_env_file

_PYTHON: Final = re.compile(r"3\.\d+")
_PROJECT: Final = """[project]
name = "{name}"
version = "{version}"
requires-python = ">=3.11"
dependencies = {requirements}
"""
_Made = tuple[dict[str, bytes], JsonObject, Form, tuple[str, ...]]


@click.command("pack", cls=ServerCommand, short_help="Write a bundle (.mcpb) for Claude Desktop and others.")
@click.argument("words", nargs=-1, metavar="SERVER")
@click.option(
    "--folder", type=FOLDER, metavar="DIR", help="What goes into it. Default: the server's folder, or its project's."
)
@click.option("--output", type=FILE, metavar="FILE", help="The bundle. Default: NAME-VERSION.mcpb.")
@click.option(
    "--with", "requirements", multiple=True, metavar="REQUIREMENT", help="A requirement, without pyproject.toml."
)
@click.option(
    "--for",
    "systems",
    multiple=True,
    type=click.Choice([*SYSTEMS, "this"]),
    metavar="SYSTEM",
    help=f"Bring the packages along for this system: {', '.join(SYSTEMS)}, or this.",
)
@click.option("--python", "pythons", multiple=True, metavar="3.N", help="With --for, this Python. Default: this one.")
@click.option("--manifest", type=click.Choice(MANIFESTS), help="The version of the manifest. Default: by its form.")
@click.option("--check", is_flag=True, help="Check a bundle that there is, by stricter rules than its schema.")
@click.option("--dry-run", is_flag=True, help="Print the manifest and the files; write nothing.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds for the server.")
@with_env
@with_env_file
@report_errors
def pack(
    *,
    words: tuple[str, ...],
    folder: Path | None,
    output: Path | None,
    check: bool,
    dry_run: bool,
    timeout: float,
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
    **choice: Any,
) -> None:
    """Start a server, and write a bundle with its files, its manifest and what it requires.

    \b
    mcp-generated pack server.py
    mcp-generated pack server.py --for macos-arm64 --for windows-x86_64 --python 3.12
    mcp-generated pack -- node dist/index.js
    mcp-generated pack shop-1.0.0.mcpb --check

    The manifest has the tools of the running server, and a field for each variable that the source reads. The uv of the
    host installs the requirements of pyproject.toml; with --for they are in the bundle. Left out are environments,
    caches, tests, .env files and keys.
    """
    command = command_words("pack SERVER")
    if len(words) != (command is None):
        raise CodegenError("pack takes one server: a Python file, or -- and its command")
    if check:
        _report(words[0] if words else "", list(problems_of(*read_bundle(Path(words[0] if words else "")))))
        return
    env = {**environment(), **variables_of(variables, env_files)}
    if command is None:
        made = _of_python(words[0], folder, env, choice)
    else:
        made = _of_command(command, folder, choice["manifest"])
    files, project, form, target = made
    live = probe_json(ServerTarget(target, env=env, label=words[0] if words else ""), ("tools", "prompts"), timeout)
    lists = live if is_object(live) else {}
    read = variables_read(files)
    if form.kind == "binary":  # Nothing says which variables it reads, but those that it was given here.
        read = dict.fromkeys(variables_of(variables, env_files))
    manifest = manifest_of(server_identity(lists.get("server")), lists, project, form, read)
    if command is None:
        _add_requirements(files, project, manifest, form, choice)
    files["manifest.json"] = (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()
    bundle = output or Path(f"{manifest['name']}-{manifest['version']}.mcpb")
    if problems := list(problems_of(manifest, list(files))):
        _report(str(bundle), problems)
    if dry_run:
        click.echo(plain(files["manifest.json"].decode()), nl=False)
        click.echo("\n".join(plain(name) for name in sorted(files)))
        return
    data = archive(files, {form.entry_point} if form.kind == "binary" else ())
    replace_user_file(bundle, data, private=False)
    click.echo(
        f"{bundle}: {len(files)} files, {len(data):,} bytes; open it with Claude Desktop, or read it with unzip -l"
    )


def _of_python(server: str, folder: Path | None, env: Mapping[str, str], choice: Mapping[str, Any]) -> _Made:
    """Return the files of a Python server, its project, the form of the bundle, and the command that starts it here."""
    if not is_python_file(server):
        raise CodegenError(f"{server}: is not a Python file; pass another program as a command: -- node dist/index.js")
    source = require_python_file(server)
    root = folder.resolve() if folder else _above_packages(source.resolve().parent)
    if not source.resolve().is_relative_to(root):
        raise CodegenError(f"{source}: is not in {root}; pass the folder of both with --folder")
    entry_point = source.resolve().relative_to(root).as_posix()
    if not runs_itself(_tree(source)):
        name = split_server(server)[1] or "app"
        raise CodegenError(f'{source}: does not run its server; add: if __name__ == "__main__": {name}.run("stdio")')
    files = files_of(root)
    project = project_of(files.get("pyproject.toml"))
    if choice["systems"]:
        form = python_form(_systems(choice), _pythons(choice), choice["manifest"])
        files[START] = starter(entry_point, files, _pythons(choice))
    else:
        form = uv_form(entry_point, project, choice["manifest"])
    return files, project, form, command_of_file(server)


def _above_packages(folder: Path) -> Path:
    """Return the folder, or the one above the package that it belongs to, where a project has its pyproject.toml."""
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _of_command(command: Sequence[str], folder: Path | None, manifest: str | None) -> _Made:
    root = (folder or Path()).resolve()
    npm = read_stored(root / "package.json") or {}
    form = command_form(command, root, npm, manifest)
    project = {**table_of_npm(npm), "authors": [_author(npm.get("author"))], "license": npm.get("license")}
    return files_of(root, BUILT), project, form, tuple(command)


def _author(value: object) -> JsonObject:
    """Return the author of package.json, which may be one text: `Somebody <somebody@example.com> (https://…)`."""
    if is_object(value):
        return value
    match = re.match(r"\s*([^<(]*?)\s*(?:<([^>]*)>)?\s*(?:\(|$)", value if isinstance(value, str) else "")
    return {"name": match[1], "email": match[2]} if match and match[1] else {}


def _add_requirements(
    files: dict[str, bytes], project: JsonObject, manifest: JsonObject, form: Form, choice: Mapping[str, Any]
) -> None:
    """Add the file that says what a server of Python requires, or all that it requires."""
    declared = project.get("dependencies")
    requirements = [*(map(str, declared) if is_list(declared) else ()), *choice["requirements"]]
    if "pyproject.toml" not in files and not choice["requirements"]:
        raise CodegenError(
            "there is no pyproject.toml with the requirements of the server; add one, or pass --with mcp-generated"
        )
    if form.kind == "python":
        files |= packages_of(requirements, _systems(choice), _pythons(choice))
    elif "pyproject.toml" not in files:
        text = _PROJECT.format(**{**manifest, "requirements": json.dumps(list(choice["requirements"]))})
        files["pyproject.toml"] = text.encode()


def _systems(choice: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(this_system() if name == "this" else name for name in choice["systems"]))


def _pythons(choice: Mapping[str, Any]) -> list[str]:
    pythons = list(choice["pythons"]) or [f"{sys.version_info[0]}.{sys.version_info[1]}"]
    for python in pythons:
        if not _PYTHON.fullmatch(python):
            raise CodegenError(f"--python {python}: is a version such as 3.12")
    return pythons


def _tree(source: Path) -> ast.Module:
    try:
        return ast.parse(source.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise CodegenError(f"{source}: is not Python: {error}") from None


def _report(bundle: str, problems: list[str]) -> None:
    for problem in problems:
        click.echo(f"{bundle}: {plain(problem)}", err=bool(problems))
    if problems:
        raise SystemExit(DIFFERENT)
    click.echo(f"{bundle}: no problems")
