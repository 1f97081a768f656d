"""The commands `config add`, `show` and `check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...json_types import is_list, is_object
from ...output import plain
from ...servers.hosts.config_problems import hidden, problems
from ...servers.hosts.env_files import assignments
from ...servers.hosts.host_config import default_config_path, read_config, servers_of, with_server, write_config
from ..options import DIFFERENT, FILE, report_errors

_file: Final = click.option(
    "--file",
    "chosen",
    type=FILE,
    metavar="FILE",
    help="The configuration. Default: that of the desktop app on this platform.",
)


@click.group("config")
def config() -> None:
    """Write, show and check a host's claude_desktop_config.json."""


@config.command("add")
@_file
@click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the server. May be repeated."
)
@click.argument("name")
@click.argument("command", nargs=-1, required=True)
@report_errors
def add(chosen: Path | None, variables: tuple[str, ...], name: str, command: tuple[str, ...]) -> None:
    """Add or replace a server: config add NAME -- COMMAND ARGUMENTS. Paths become absolute."""
    path = chosen or default_config_path()
    env = assignments(variables, "--env")
    before = read_config(path) if path.exists() else {}
    write_config(path, with_server(before, name, command, env, Path.cwd()))
    click.echo(f"{path}: {name} {'replaced' if name in servers_of(before) else 'added'}; restart the host to see it")


@config.command("show")
@_file
@click.option("--json", "as_json", is_flag=True, help="Print JSON, without the values of variables.")
@report_errors
def show(chosen: Path | None, as_json: bool) -> None:
    """Show the servers. The values of variables are hidden, because they are often secrets."""
    path = chosen or default_config_path()
    servers = servers_of(read_config(path))
    if as_json:
        click.echo(
            json.dumps(
                {name: hidden(entry) if is_object(entry) else entry for name, entry in servers.items()}, indent=2
            )
        )
        return
    table = Table("server", "command", "variables", box=None, header_style="bold", pad_edge=False, title_justify="left")
    for name, entry in servers.items():
        fields = entry if is_object(entry) else {}
        arguments = fields.get("args", [])
        words = [fields.get("command", fields.get("url", "")), *(arguments if is_list(arguments) else [])]
        variables = fields.get("env")
        cells = name, " ".join(map(str, words)), " ".join(variables) if is_object(variables) else ""
        table.add_row(*(Text(plain(cell)) for cell in cells))
    Console(soft_wrap=True).print(table)


@config.command("check")
@_file
@report_errors
def check_config(chosen: Path | None) -> None:
    """Check that a host can start the servers: commands and folders, placeholders, duplicate names, variables that the
    host does not expand. Exit code 1 if there are problems."""
    path = chosen or default_config_path()
    config_file = read_config(path)
    lines = list(problems(config_file, path.read_text(encoding="utf-8-sig"), path.name))
    for line in lines:
        click.echo(f"{path}: {plain(line)}")
    if lines:
        raise SystemExit(DIFFERENT)
    click.echo(f"{path}: {len(servers_of(config_file))} servers, no problems")
