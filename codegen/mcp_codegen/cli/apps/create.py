"""The commands `create`, a new project with a server, and `skill`, what an agent has to know to write one."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import Final

import click

from ...errors import CodegenError
from ...output import write_new_files
from ...paths import data_path, generator_version
from ..options import FOLDER, report_errors

# What stands for the name of the project and for that of its package, in the files and in their places.
_NAME: Final = "{{ name }}"
_PACKAGE: Final = "{{ package }}"
# The files of a project, by the text of each.
_FILES: Final = {
    "pyproject.toml": "pyproject.toml.in",
    f"{_PACKAGE}/__init__.py": "package.py.in",
    f"{_PACKAGE}/server.py": "server.py.in",
    "tests/test_server.py": "test_server.py.in",
    "tests/test_every_tool.py": "test_every_tool.py.in",
    "skills/write-tools/SKILL.md": "skill.md.in",
    "AGENTS.md": "AGENTS.md.in",
    ".mcp.json": "mcp.json.in",
    ".vscode/mcp.json": "vscode_mcp.json.in",
    ".gitignore": "gitignore.in",
    "README.md": "README.md.in",
}
_TAKEN: Final = frozenset({"mcp", "mcp_generated", "mcp_runtime", "mcp_products", "mcp_codegen", "tests", "skills"})
_SKILL: Final = "mcp-servers"  # The name in its front matter, which is that of its folder.


@click.command("create", short_help="Write a new project with a server.")
@click.argument("name")
@click.option("--output", type=FOLDER, metavar="DIR", help="The folder to write. Default: ./NAME.")
@report_errors
def create(name: str, output: Path | None) -> None:
    """Write the project NAME: a package with a server, its tests, the configuration of hosts, and what agents read.

    Files that exist are not overwritten.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*", name) or keyword.iskeyword(name):
        raise CodegenError(f"{name!r} cannot be the name of a project: letters, digits and single - or _, as my-server")
    package = name.lower().replace("-", "_")
    if package in sys.stdlib_module_names or package in _TAKEN:
        raise CodegenError(f"{name!r} is the name of a module already; choose another, such as {name}-server")
    folder = output or Path(name)

    templates = data_path("templates") / "project"

    def put(text: str) -> str:
        return text.replace(_NAME, name).replace(_PACKAGE, package)

    texts = {put(path): put((templates / source).read_text(encoding="utf-8")) for path, source in _FILES.items()}
    write_new_files({folder / path: text for path, text in texts.items()})
    for path in texts:
        click.echo(f"written: {folder / path}")
    click.echo(f"to run next, in {folder}:")
    server = f"{package}/server.py"
    click.echo("  python -m pytest")
    click.echo(f"  mcp-generated lint {server}")
    click.echo(f"  mcp-generated dev {server}")
    click.echo(f"  mcp-generated call {server} add a=1 b=2")
    click.echo(f"  mcp-generated install {server} --host claude-code")


# The command `skill`: what an agent has to know to write, check and ship a server.


@click.command("skill", short_help="Print a skill for coding agents, or write it into their folder.")
@click.option("--output", type=FOLDER, metavar="DIR", help=f"Write DIR/{_SKILL}/SKILL.md, which must not exist.")
@report_errors
def skill(*, output: Path | None) -> None:
    """Print the skill `mcp-servers` of this version, or write it to where an agent reads skills.

    \b
    mcp-generated skill
    mcp-generated skill --output .claude/skills
    """
    text = (data_path("templates") / "skill" / "SKILL.md.in").read_text(encoding="utf-8")
    text = text.replace("{{ version }}", generator_version())
    if output is None:
        click.echo(text, nl=False)
        return
    path = output / _SKILL / "SKILL.md"
    write_new_files({path: text})
    click.echo(f"written: {path}")
