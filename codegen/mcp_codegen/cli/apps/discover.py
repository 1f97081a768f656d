"""The command `discover`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...output import plain, plain_json
from ...servers.hosts.catalog import HOSTS
from ...servers.hosts.installed import installed_servers
from ..options import report_errors


@click.command("discover", short_help="List the servers of the hosts on this machine.")
@click.option("--host", "hosts", multiple=True, type=click.Choice([*HOSTS]), help="Only this host. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, without the values of variables.")
@report_errors
def discover(hosts: tuple[str, ...], as_json: bool) -> None:
    """List the servers that the hosts on this machine have, for the user and for the project in this folder.

    The values of variables are not shown. A file that cannot be read is reported on standard error.
    """
    servers = list(installed_servers(Path.cwd(), hosts))
    for server in servers:
        if server.problem:
            click.echo(plain(server.problem), err=True)
    readable = [server for server in servers if not server.problem]
    if as_json:
        rows = [
            {
                "host": server.host,
                "name": server.name,
                "command": list(server.words),
                "variables": list(server.variables),
                "file": str(server.path),
            }
            for server in readable
        ]
        click.echo(plain_json(rows, indent=2))
        return
    if not readable:
        click.echo(f"no servers; the hosts are {', '.join(hosts or HOSTS)}")
        return
    table = Table("host", "server", "command", "variables", box=None, header_style="bold", pad_edge=False)
    for server in readable:
        cells = server.host, server.name, shlex.join(server.words), " ".join(server.variables)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    Console(soft_wrap=True).print(table)
