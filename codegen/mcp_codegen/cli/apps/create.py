"""The command `create`: a new project with a server."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import Final

import click

from ...errors import CodegenError
from ...output import write_new_files
from ...paths import data_path
from ..options import FOLDER, report_errors

# The files of a project, by the template of each.
_FILES: Final = {
    "pyproject.toml": "pyproject.toml.jinja2",
    "server.py": "server.py.jinja2",
    "tests/test_server.py": "test_server.py.jinja2",
    "tests/test_every_tool.py": "test_every_tool.py.jinja2",
    ".mcp.json": "mcp.json.jinja2",
    ".vscode/mcp.json": "vscode_mcp.json.jinja2",
    ".gitignore": "gitignore.jinja2",
    "README.md": "README.md.jinja2",
}


@click.command("create", short_help="Write a new project with a server.")
@click.argument("name")
@click.option("--output", type=FOLDER, metavar="DIR", help="The folder to write. Default: ./NAME.")
@report_errors
def create(name: str, output: Path | None) -> None:
    """Write the project NAME: a server, its tests, the configuration of hosts, and pyproject.toml.

    Files that exist are not overwritten.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*", name) or keyword.iskeyword(name):
        raise CodegenError(f"{name!r} cannot be the name of a project: letters, digits and single - or _, as my-server")
    if name.lower() in sys.stdlib_module_names:
        raise CodegenError(f"{name!r} is a module of Python; choose another name, such as {name}-server")
    folder = output or Path(name)
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # The files are Python, TOML, JSON and Markdown, not HTML.
        loader=FileSystemLoader(data_path("templates") / "project"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    texts = {path: environment.get_template(template).render(name=name) for path, template in _FILES.items()}
    write_new_files({folder / path: text for path, text in texts.items()})
    for path in texts:
        click.echo(f"written: {folder / path}")
    click.echo(f"to run next, in {folder}:")
    click.echo("  python -m pytest                                   # its tests")
    click.echo("  mcp-codegen dev server.py                          # serve it, with the MCP Inspector")
    click.echo("  mcp-codegen call server.py add a=1 b=2             # call a tool")
    click.echo("  mcp-codegen install server.py --host claude-code   # or another host; --help lists them")
