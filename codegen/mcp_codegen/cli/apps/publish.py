"""The command `publish`: the file server.json of the MCP registry, from the project and its running server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from ...errors import CodegenError, JsonObject, is_object
from ...output import plain, refuse_links, write_files
from ...servers.bundle import files_of, project_of, variables_read
from ...servers.contract import server_identity
from ...servers.environment import variables_of
from ...servers.probe import is_python_file, probe_json, require_python_file
from ...servers.registry import (
    Project,
    document_of,
    drift_of,
    merged,
    name_of,
    problems_of,
    project_problems,
    read_stored,
    table_of_npm,
    with_owner,
)
from ..options import DIFFERENT, FOLDER, ServerCommand, named_server, report_errors
from .running import with_env, with_env_file

_FILE: Final = "server.json"
_MARKS: Final = ("pyproject.toml", "package.json")
_ABOVE: Final = 6  # Folders above the server in which its project is looked for.


@click.command("publish", cls=ServerCommand, short_help="Write server.json for the MCP registry, or check it.")
@click.argument("words", nargs=-1, metavar="SERVER")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 for drift and for what the registry refuses.")
@click.option("--write", is_flag=True, help="Write server.json, and the README's line that proves who owns the name.")
@click.option("--name", metavar="NAME", help="The name in the registry, such as io.github.USER/SERVER.")
@click.option("--remote", "remotes", multiple=True, metavar="URL", help="A public endpoint of the server.")
@click.option("--folder", type=FOLDER, metavar="DIR", help="The project. Default: the pyproject.toml above the server.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds for the server.")
@with_env
@with_env_file
@report_errors
def publish(
    *,
    words: tuple[str, ...],
    check: bool,
    write: bool,
    name: str | None,
    remotes: tuple[str, ...],
    folder: Path | None,
    timeout: float,
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
) -> None:
    """Make server.json of pyproject.toml, package.json and the running server. Nothing is uploaded.

    \b
    mcp-generated publish shop/server.py                                    print it
    mcp-generated publish shop/server.py --write --name io.github.USER/shop
    mcp-generated publish shop/server.py --check                            in CI: is it up to date?

    What an author has added to server.json stays. The program mcp-publisher of the registry uploads it.
    """
    if check and write:
        raise CodegenError("--check and --write exclude each other; pass one of them")
    target, rest = named_server(words, "publish SERVER")
    if target.saved is not None or rest:
        raise CodegenError(f"{' '.join(rest) or target}: is not a server; write publish SERVER")
    is_file = bool(words) and is_python_file(words[0])
    root = _project_folder((folder or (require_python_file(words[0]).parent if is_file else Path())).resolve())
    live = probe_json(replace(target, env={**target.env, **variables_of(variables, env_files)}), (), timeout)
    project, readme = _read(root, live)
    stored = read_stored(root / _FILE)
    wanted = merged(stored, document_of(project, name_of(project, stored, name), remotes))
    if check:
        _check(stored, wanted, project)
        return
    if problems := list(problems_of(wanted)):
        _report(problems)
    text = json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    if not write:
        click.echo(plain(text), nl=False)
        return
    files = {root / _FILE: text}
    if readme is not None and project.readme is not None:
        if (owned := with_owner(project.readme, str(wanted["name"]))) != project.readme:
            files[readme] = owned
            project = replace(project, readme=owned)
    refuse_links(*files)
    write_files(files)
    click.echo(f"written: {root / _FILE}")
    if readme in files:
        click.echo(f"written: {readme}, the line mcp-name: {wanted['name']}")
    for problem in project_problems(project, wanted):
        click.echo(f"before the release: {plain(problem)}", err=True)


def _check(stored: JsonObject | None, wanted: JsonObject, project: Project) -> None:
    if stored is None:
        raise CodegenError(f"there is no {_FILE} beside pyproject.toml; publish --write makes it")
    refused = [*problems_of(stored), *project_problems(project, stored)]
    _report([*dict.fromkeys([*drift_of(stored, wanted), *refused])])
    click.echo(f"{_FILE}: {stored['name']} {stored['version']} agrees with the project and the running server")


def _report(problems: list[str]) -> None:
    for problem in problems:
        click.echo(f"{_FILE}: {plain(problem)}", err=True)
    if problems:
        raise SystemExit(DIFFERENT)


def _project_folder(folder: Path) -> Path:
    found = [place for place in (folder, *folder.parents)[:_ABOVE] if any((place / name).is_file() for name in _MARKS)]
    if not found:
        raise CodegenError(
            f"{folder}: has no pyproject.toml and no package.json, from which server.json gets name, version and "
            "description; add one, or pass the folder of the project with --folder"
        )
    return found[0]


def _read(root: Path, live: object) -> tuple[Project, Path | None]:
    """Return what the project says, and the file that becomes its description on PyPI."""
    npm = read_stored(root / "package.json") or {}
    is_python = (root / "pyproject.toml").is_file()
    table = project_of((root / "pyproject.toml").read_bytes()) if is_python else table_of_npm(npm)
    if not table.get("name") and not is_python:
        raise CodegenError(f"{root / 'package.json'}: has no name; the registry names the package")
    if not table.get("name"):
        raise CodegenError(f"{root / 'pyproject.toml'}: has no [project] with a name; the registry names the package")
    named = table.get("readme")
    place = str(named.get("file") or "") if is_object(named) else str(named or "")
    readme = root / place if place else None
    if readme is not None and not readme.is_file():
        raise CodegenError(f"{readme}: does not exist, and pyproject.toml names it as readme; write it")
    text = readme.read_text(encoding="utf-8") if readme is not None else None
    server = server_identity(live.get("server")) if is_object(live) else {}
    return Project(table, server, text, variables_read(files_of(root)), npm, is_python), readme
