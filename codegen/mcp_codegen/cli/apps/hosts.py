"""The commands `install`, `uninstall`, `config` and `discover`: servers in the configurations of hosts."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import CodegenError, JsonObject, is_list, is_object
from ...output import plain, plain_json
from ...servers.contract import server_identity
from ...servers.environment import assignments, declared_requirements, missing_requirements, uv_command, variables_of
from ...servers.hosts import (
    HOSTS,
    Host,
    HostEntry,
    HostFile,
    Scope,
    default_config_path,
    hidden,
    installed_servers,
    problems,
    read_config,
    servers_of,
    with_server,
    write_config,
)
from ...servers.probe import (
    ServerTarget,
    command_of_file,
    entry_of,
    environment,
    is_module,
    is_python_file,
    launch_command,
    probe_json,
    require_python_file,
    split_server,
    target_from_config,
)
from ...testkit.processes import joined_command
from ..options import DIFFERENT, FILE, add_credentials, report_errors
from .running import with_env, with_env_file

_DEFAULT_HOST: Final = "claude-desktop"
_with_host: Final = click.option(
    "--host",
    "hosts",
    multiple=True,
    type=click.Choice(list(HOSTS)),
    default=[_DEFAULT_HOST],
    show_default=True,
    help="The host. May be repeated.",
)
_with_scope: Final = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="The configuration of the user, or the one of the project in this folder.",
)
_with_file: Final = click.option("--file", "chosen", type=FILE, metavar="FILE", help="Another configuration file.")
_with_dry_run: Final = click.option("--dry-run", is_flag=True, help="Print what would be written; write nothing.")

_file: Final = click.option(
    "--file",
    "chosen",
    type=FILE,
    metavar="FILE",
    help="The configuration. Default: that of the desktop app on this platform.",
)


@click.command("install", short_help="Add a server to a host's configuration.")
@click.argument("server", nargs=-1)
@click.option("-m", "--module", metavar="MODULE", help="The server of an installed module: package.module[:name].")
@click.option("--name", metavar="NAME", help="The name in the configuration. Default: the server's own.")
@click.option("--uv", "with_uv", is_flag=True, help="Start it with uv, which installs dependencies= of the App.")
@click.option(
    "--with",
    "requirements",
    multiple=True,
    metavar="REQUIREMENT",
    help="A package that uv installs as well; implies --uv. May be repeated.",
)
@with_env
@with_env_file
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header for a URL.")
@_with_host
@_with_scope
@_with_file
@_with_dry_run
@report_errors
def install(
    *,
    server: tuple[str, ...],
    module: str | None,
    name: str | None,
    with_uv: bool,
    requirements: tuple[str, ...],
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
    headers: tuple[str, ...],
    hosts: tuple[str, ...],
    scope: Scope,
    chosen: Path | None,
    dry_run: bool,
) -> None:
    """Add a server to the configuration of a host.

    \b
    mcp-generated install server.py --host cursor --env API_KEY=…
    mcp-generated install https://example.com/mcp --name example --host vscode
    mcp-generated install .cursor/mcp.json:example --host claude-desktop
    mcp-generated install server.py --host claude-desktop --uv --with pandas
    mcp-generated install --name files --host gemini -- npx -y some-server .

    Without --name the server is started and its name is taken. Everything else in the file remains, and the file before
    is stored as FILE.bak, or FILE.bak2 and so on. Hosts start servers with few variables: pass what yours needs.
    """
    if chosen is not None and len(hosts) > 1:
        raise CodegenError("--file needs one --host, which tells its format")
    env = variables_of(variables, env_files)
    if module is None and len(server) == 1 and (place := entry_of(server[0])) is not None:
        known = target_from_config(*place)
        server, env = (known.url,) if known.url else known.command, {**known.env, **env}
        headers = (*(f"{key}: {value}" for key, value in known.access.headers.items()), *headers)
        name = name or place[1]
    elif module is None and len(server) == 1 and not is_python_file(server[0]) and is_module(server[0]):
        module, server = server[0], ()
    if module is not None and server:
        raise CodegenError(f"-m and {' '.join(server)!r} exclude each other; pass one of them")
    target = ServerTarget(url="".join(server)) if _is_url(server) else ServerTarget()
    access = add_credentials(target, headers, False, None).access
    command = _command(server, module)
    with_uv = with_uv or bool(requirements)
    if with_uv:
        command = _with_uv(command, server, module, requirements)
    else:
        _require_installed(server, module)
    entry = HostEntry(command, target.url, env, access.headers)
    key = _safe_name(name) if name is not None else _own_name(server, module, entry, with_uv)
    files = [_file_of(HOSTS[host], scope, chosen) for host in dict.fromkeys(hosts)]
    plans = [(file, file.entry(key, file.host.entry(key, entry))) for file in files]
    texts = [file.with_entry(key, fields) for file, fields in plans]
    for (file, fields), text in zip(plans, texts, strict=True):
        if dry_run:
            _show_plan(file, key, fields)
            continue
        verb = "replaced" if key in file.servers else "added"
        _report(file, file.write(text), f"{key} {verb}; {file.host.next_step}")


@click.command("uninstall", short_help="Remove a server from a host's configuration.")
@click.argument("name")
@_with_host
@_with_scope
@_with_file
@_with_dry_run
@report_errors
def uninstall(*, name: str, hosts: tuple[str, ...], scope: Scope, chosen: Path | None, dry_run: bool) -> None:
    """Remove the server NAME from the configuration of a host; everything else in the file remains."""
    if chosen is not None and len(hosts) > 1:
        raise CodegenError("--file needs one --host, which tells its format")
    files = [_file_of(HOSTS[host], scope, chosen) for host in dict.fromkeys(hosts)]
    texts = [file.without_entry(name) for file in files]
    for file, text in zip(files, texts, strict=True):
        if dry_run:
            click.echo(f"{file.path}: {name} would be removed; nothing was written")
        else:
            _report(file, file.write(text), f"{name} removed; {file.host.title} reads this when it starts")


def _file_of(host: Host, scope: Scope, chosen: Path | None) -> HostFile:
    if chosen is not None:
        return HostFile(host, chosen)
    folder = Path.cwd()
    return HostFile(host, host.path(scope, folder), folder if scope == "project" else None)


def _is_url(server: tuple[str, ...]) -> bool:
    return len(server) == 1 and server[0].startswith(("http://", "https://"))


def _command(server: tuple[str, ...], module: str | None) -> tuple[str, ...]:
    """Return the command for the host, with absolute paths; none for a URL."""
    run = (sys.executable, "-m", "mcp_codegen", "run")
    if module is not None:
        return (*run, "-m", module)
    if not server:
        raise CodegenError("no server was named; pass a Python file, a URL, -m MODULE, or -- COMMAND")
    if _is_url(server):
        return ()
    if len(server) == 1 and is_python_file(server[0]):
        path, _, name = os.path.abspath(require_python_file(server[0])), *split_server(server[0])
        return (*run, f"{path}:{name}" if name else path)
    entry = cast("dict[str, Any]", servers_of(with_server({}, "server", server, {}, Path.cwd()))["server"])
    return (entry["command"], *entry["args"])


def _python_server(server: tuple[str, ...], module: str | None) -> str | None:
    """Return the Python file or module; None for a URL and for a command."""
    return module or (server[0] if len(server) == 1 and is_python_file(server[0]) else None)


def _with_uv(
    command: tuple[str, ...], server: tuple[str, ...], module: str | None, requirements: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command of uv that runs a Python file or a module. Raises CodegenError for other servers."""
    source = _python_server(server, module)
    if source is None:
        raise CodegenError("--uv and --with are for a Python file or -m MODULE; leave them out for a URL or a command")
    declared = declared_requirements(source, module=module is not None, strict=True)
    _, *words = command  # uv chooses the Python.
    return (*uv_command(list(dict.fromkeys((*declared, *requirements)))), "python", *words)


def _require_installed(server: tuple[str, ...], module: str | None) -> None:
    """Raise CodegenError for packages in `dependencies=` of an App that this Python, which the host starts, lacks."""
    source = _python_server(server, module)
    if source is None:
        return
    missing = missing_requirements(declared_requirements(source, module=module is not None, strict=False))
    if missing:
        raise CodegenError(
            f"{source}: the App has dependencies={missing}, which this Python does not have: add --uv, "
            f"or install {'them' if len(missing) > 1 else 'it'} here with pip; nothing was written"
        )


def _own_name(server: tuple[str, ...], module: str | None, entry: HostEntry, with_uv: bool) -> str:
    """Return the name that a live server has for itself. Raises CodegenError if it does not start, or has none."""
    env = {**environment(), **entry.env}
    if with_uv:  # What the server imports may not be installed here.
        target = ServerTarget(entry.command, env=env, label=module or server[0])
    elif module is not None:
        target = ServerTarget(launch_command(module, module=True), env=env, label=module)
    elif len(server) == 1 and is_python_file(server[0]):
        target = ServerTarget(command_of_file(server[0]), env=env, label=server[0])
    else:
        target = ServerTarget(entry.command, entry.url, env=entry.env)
        target = replace(target, access=replace(target.access, headers=entry.headers))
    try:
        output = probe_json(target, (), 60.0)
    except CodegenError as error:
        raise CodegenError(f"{error}; nothing was written: correct it, or pass --name") from None
    name = server_identity(output.get("server") if is_object(output) else None).get("name")
    if not isinstance(name, str) or not name:
        raise CodegenError(f"{target}: has no name of its own; pass --name")
    return _safe_name(name)


def _safe_name(name: str) -> str:
    """Return a name that each host accepts: letters, digits, `_` and `-`."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
    if not safe:
        raise CodegenError(f"{name!r} cannot be a name; pass --name with letters and digits")
    return safe


def _show_plan(file: HostFile, name: str, entry: JsonObject) -> None:
    click.echo(f"{file.path}: {file.host.servers_key}.{name} would be, for {file.host.title}:")
    click.echo(plain_json(entry, indent=2))


def _report(file: HostFile, backup: Path | None, text: str) -> None:
    click.echo(f"{file.path}: {text}" + (f" (the file before: {backup.name})" if backup is not None else ""))


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
    count = len(servers_of(config_file))
    click.echo(f"{path}: {count} server{'' if count == 1 else 's'}, no problems")


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
        cells = server.host, server.name, joined_command(server.words), " ".join(server.variables)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    Console(soft_wrap=True).print(table)
