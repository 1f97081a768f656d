"""`mcp-generated skill`: its text is a skill, its commands exist, and nothing in it runs by itself."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mcp_codegen.cli.authors import authors
from mcp_codegen.paths import generator_version
from mcp_products.skills.frontmatter import parse_front_matter


def printed() -> str:
    result = CliRunner().invoke(authors, ["skill"])
    assert result.exit_code == 0
    return result.output


def test_it_is_a_skill_of_this_version_without_permissions_and_downloads() -> None:
    text = printed()
    fields = parse_front_matter(text.encode())
    assert set(fields) == {"name", "description"} and fields["name"] == "mcp-servers"
    assert len(str(fields["description"])) <= 1024
    assert f"mcp-generated[cli,app]=={generator_version()}" in text and "{{" not in text
    assert not re.search(r"curl|wget|allowed-tools|\| sh", text)


def test_its_commands_have_options_that_exist() -> None:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", printed(), re.S) for line in block.splitlines()]
    ours = [shlex.split(line)[1:] for line in lines if line.startswith("mcp-generated ")]
    assert len(ours) >= 8
    for name, *words in ours:
        command = authors.get_command(click.Context(authors), name)
        assert command is not None, name
        command.make_parser(click.Context(command)).parse_args(words)


def test_it_is_written_where_an_agent_reads_it_and_no_file_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / ".claude/skills/mcp-servers/SKILL.md"
    first = CliRunner().invoke(authors, ["skill", "--output", ".claude/skills"])
    assert (first.exit_code, place.read_text()) == (0, printed())
    place.write_text("of the user")
    again = CliRunner().invoke(authors, ["skill", "--output", ".claude/skills"])
    assert again.exit_code == 2 and "SKILL.md" in again.output
    assert place.read_text() == "of the user"
