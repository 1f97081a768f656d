"""The command `pack`: a bundle that a host installs with one click."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Final

import click

from ...errors import CodegenError, is_object
from ...output import plain, refuse_links, staged_file
from ...servers.bundle import (
    archive,
    files_of,
    manifest_of,
    problems_of,
    project_of,
    read_bundle,
    variables_read,
)
from ...servers.contract import server_identity
from ...servers.foreign import runs_itself
from ...servers.hosts.environment import variables_of
from ...servers.probe import ServerTarget, command_of_file, environment, probe_json, require_python_file, split_server
from ..options import DIFFERENT, FILE, FOLDER, report_errors
from .running import with_env, with_env_file

_PROJECT: Final = """[project]
name = "{name}"
version = "{version}"
requires-python = ">=3.11"
dependencies = {requirements}
"""


@click.command("pack", short_help="Write a bundle (.mcpb) for Claude Desktop and others.")
@click.argument("server")
@click.option("--folder", type=FOLDER, metavar="DIR", help="What goes into it. Default: the folder of the server.")
@click.option("--output", type=FILE, metavar="FILE", help="The bundle. Default: NAME-VERSION.mcpb.")
@click.option(
    "--with", "requirements", multiple=True, metavar="REQUIREMENT", help="A requirement, without pyproject.toml."
)
@click.option("--check", is_flag=True, help="Check a bundle that there is, by stricter rules than its schema.")
@click.option("--dry-run", is_flag=True, help="Print the manifest and the files; write nothing.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds for the server.")
@with_env
@with_env_file
@report_errors
def pack(
    *,
    server: str,
    folder: Path | None,
    output: Path | None,
    requirements: tuple[str, ...],
    check: bool,
    dry_run: bool,
    timeout: float,
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
) -> None:
    """Start the server of a Python file, and write a bundle with its source, its manifest and its requirements.

    \b
    mcp-generated pack server.py
    mcp-generated pack server.py --dry-run
    mcp-generated pack shop-1.0.0.mcpb --check

    The manifest has the tools of the running server, and a field for each variable that the source reads. The uv of the
    host installs the requirements of pyproject.toml. Left out are environments, caches, tests, .env files and keys.
    """
    if check:
        _report(server, list(problems_of(*read_bundle(Path(server)))))
        return
    source = require_python_file(server)
    root = (folder or source.parent).resolve()
    if not source.resolve().is_relative_to(root):
        raise CodegenError(f"{source}: is not in {root}; pass the folder of both with --folder")
    entry_point = source.resolve().relative_to(root).as_posix()
    if not runs_itself(_tree(source)):
        name = split_server(server)[1] or "app"
        raise CodegenError(f'{source}: does not run its server; add: if __name__ == "__main__": {name}.run("stdio")')
    files = files_of(root)
    project = project_of(files.get("pyproject.toml"))
    env = {**environment(), **variables_of(variables, env_files)}
    target = ServerTarget(command_of_file(server), env=env, label=server)
    live = probe_json(target, ("tools", "prompts"), timeout)
    lists = live if is_object(live) else {}
    manifest = manifest_of(server_identity(lists.get("server")), lists, project, entry_point, variables_read(files))
    if "pyproject.toml" not in files:
        if not requirements:
            raise CodegenError(
                f"{root}: has no pyproject.toml with its requirements; add one, or pass --with mcp-generated"
            )
        text = _PROJECT.format(**{**manifest, "requirements": json.dumps(list(requirements))})
        files["pyproject.toml"] = text.encode()
    files["manifest.json"] = (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()
    bundle = output or Path(f"{manifest['name']}-{manifest['version']}.mcpb")
    if problems := list(problems_of(manifest, list(files))):
        _report(str(bundle), problems)
    if dry_run:
        click.echo(plain(files["manifest.json"].decode()), nl=False)
        click.echo("\n".join(plain(name) for name in sorted(files)))
        return
    data = archive(files)
    _replace(bundle, data)
    click.echo(
        f"{bundle}: {len(files)} files, {len(data):,} bytes; open it with Claude Desktop, or read it with unzip -l"
    )


def _tree(source: Path) -> ast.Module:
    try:
        return ast.parse(source.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise CodegenError(f"{source}: is not Python: {error}") from None


def _replace(bundle: Path, data: bytes) -> None:
    refuse_links(bundle)
    staged_file(bundle, data).replace(bundle)


def _report(bundle: str, problems: list[str]) -> None:
    for problem in problems:
        click.echo(f"{bundle}: {plain(problem)}", err=bool(problems))
    if problems:
        raise SystemExit(DIFFERENT)
    click.echo(f"{bundle}: no problems")
