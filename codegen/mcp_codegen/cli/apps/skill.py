"""The command `skill`: what an agent has to know to write, check and ship a server."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ...output import write_new_files
from ...paths import data_path, generator_version
from ..options import FOLDER, report_errors

_NAME: Final = "mcp-servers"  # The name in its front matter, which is that of its folder.


@click.command("skill", short_help="Print a skill for coding agents, or write it into their folder.")
@click.option("--output", type=FOLDER, metavar="DIR", help=f"Write DIR/{_NAME}/SKILL.md, which must not exist.")
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
    path = output / _NAME / "SKILL.md"
    write_new_files({path: text})
    click.echo(f"written: {path}")
