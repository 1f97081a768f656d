"""Blocks of the documentation that are not Python: commands have options that exist, data can be read."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Final

import click
import pytest
import yaml
from support.docs.blocks import PAGES
from support.project import ROOT
from website import pictures

from mcp_codegen.cli.authors import authors
from mcp_codegen.cli.main import main

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
# Python runs in `tests/house/test_docs.py`; `text` and `console` show output, below or beside what makes it.
# "py" are programs that need packages of others, or files that a command writes: tests/compat/names and
# tests/codegen/test_generate_page.py run them. "ts", "go" and "rust" are lines of what test_typescript_plugin.py,
# test_go_plugin.py and test_rust_plugin.py run in tests/codegen/protocols.
KINDS: Final = {
    "python",
    "py",
    "ts",
    "go",
    "rust",
    "text",
    "console",
    "sh",
    "json",
    "toml",
    "yaml",
    "nginx",
    "",
    *pictures.KINDS,
}


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


BLOCKS: Final = [(place(page), kind, text) for page in PAGES for kind, text in _BLOCK.findall(page.read_text("utf-8"))]


PROGRAMS: Final[dict[str, click.Group]] = {"mcp-codegen": main, "mcp-generated": authors}


def commands() -> list[tuple[str, str]]:
    """The commands of blocks for a shell, and their pages: lines that begin with a prompt, or all lines of `sh`."""
    lines = [
        (page, line.removeprefix("$ "))
        for page, kind, text in BLOCKS
        if kind in ("sh", "console")
        for line in text.replace("\\\n", " ").splitlines()
        if kind == "sh" or line.startswith("$ ")
    ]
    return [(page, line) for page, line in lines if line.startswith(tuple(f"{name} " for name in PROGRAMS))]


def test_every_block_has_a_kind_that_is_run_read_or_output() -> None:
    assert {(page, kind) for page, kind, _ in BLOCKS if kind not in KINDS} == set()


@pytest.mark.parametrize(("page", "line"), commands())
def test_the_commands_of_the_documentation_have_options_that_exist(page: str, line: str) -> None:
    program, *words = shlex.split(line.partition(" | ")[0], comments=True)
    command: click.Command = PROGRAMS[program]
    context = click.Context(command)
    while True:
        _, words, _ = command.make_parser(context).parse_args(words)  # Raises NoSuchOption.
        if not isinstance(command, click.Group) or not words:
            break
        name, *words = words
        subcommand = command.get_command(context, name)
        assert subcommand is not None, f"there is no command {name!r}"
        command, context = subcommand, click.Context(subcommand, context)


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_page_lists_all_commands_and_no_other(program: str) -> None:
    table = (ROOT / "docs" / "command-line.md").read_text("utf-8").split("## All commands")[1].split("\n## ")[0]
    rows = re.findall(rf"^\| `{program} (.+?)` ?(.*?) \| .+ \|$", table, re.M)
    listed = [row[0].split()[0].rstrip(":") for row in rows if not row[0].startswith("--")]
    others = [
        name for row in rows if not row[1].startswith((":", ", `URL")) for name in re.findall(r"`([\w-]+)`", row[1])
    ]
    group = PROGRAMS[program]
    assert sorted([*listed, *others]) == sorted(group.list_commands(click.Context(group)))
    assert f"| `{program} " not in (ROOT / "README.md").read_text("utf-8")


def test_contributing_lists_the_sessions_of_nox() -> None:
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    listed = re.findall(r"^\| `nox -s (\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
    assert len(functions) > 15 and sorted(listed) == sorted(function.name for function in functions)


def test_the_commands_are_many() -> None:
    assert len(commands()) >= 25


@pytest.mark.parametrize(("page", "kind", "text"), [block for block in BLOCKS if block[1] in ("json", "toml", "yaml")])
def test_blocks_of_data_can_be_read(page: str, kind: str, text: str) -> None:
    read = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}[kind]
    assert read(text)
