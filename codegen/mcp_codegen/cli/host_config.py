"""The commands `config add`, `show` and `check`: a command line goes in, a host's configuration is written or judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import CodegenError
from ..json_types import is_list, is_object
from ..output import plain
from ..servers.host_config import (
    problems,
    read_config,
    servers_of,
    usual_place,
    with_server,
    write_config,
)
from .options import DIFFERENT, FILE, report_errors

_file: Final = click.option(
    "--file",
    "chosen",
    type=FILE,
    metavar="FILE",
    help="The configuration. Default: the desktop app's on this platform.",
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
    """Add a server, or put it in the place of that name: config add NAME -- COMMAND ARGUMENTS. Paths become absolute."""
    path = chosen or usual_place()
    env: dict[str, str] = {}
    for each in variables:
        key, sign, value = each.partition("=")
        if not key or not sign:
            raise CodegenError("--env takes NAME=VALUE")
        env[key] = value
    before = read_config(path) if path.exists() else {}
    write_config(path, with_server(before, name, command, env, Path.cwd()))
    click.echo(f"{path}: {name} {'replaced' if name in servers_of(before) else 'added'}; restart the host to see it")


@config.command("show")
@_file
@click.option("--json", "as_json", is_flag=True, help="As JSON, without the values of variables.")
@report_errors
def show(chosen: Path | None, as_json: bool) -> None:
    """Show the servers. Values of variables are often secrets, and are not shown."""
    path = chosen or usual_place()
    servers = servers_of(read_config(path))
    if as_json:
        click.echo(json.dumps({name: _public(entry) for name, entry in servers.items()}, indent=2))
        return
    table = Table("server", "command", "variables", box=None, header_style="bold", pad_edge=False, title_justify="left")
    for name, entry in servers.items():
        said = _public(entry) if is_object(entry) else {}
        arguments = said.get("args", [])
        words = [said.get("command", said.get("url", "")), *(arguments if is_list(arguments) else [])]
        variables = said.get("env")
        cells = name, " ".join(map(str, words)), " ".join(variables) if is_object(variables) else ""
        table.add_row(*(Text(plain(each)) for each in cells))
    Console(soft_wrap=True).print(table)


@config.command("check")
@_file
@report_errors
def check_config(chosen: Path | None) -> None:
    """Say what keeps a host from starting the servers. Exit code 1 if anything does."""
    path = chosen or usual_place()
    said = read_config(path)
    found = list(problems(said))
    for each in found:
        click.echo(f"{path}: {each}")
    if found:
        raise SystemExit(DIFFERENT)
    click.echo(f"{path}: {len(servers_of(said))} servers, nothing wrong")


def _public(entry: object) -> dict[str, object]:
    said = entry if is_object(entry) else {}
    hidden = {key: dict.fromkeys(values, "…") for key in ("env", "headers") if is_object(values := said.get(key))}
    return {**said, **hidden}
