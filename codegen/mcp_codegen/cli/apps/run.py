"""The command `run`: this process becomes the server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import click

from ...errors import CodegenError
from ...servers.hosts.env_files import variables_of
from ...servers.local import launch_command, require_python_file
from ..options import FILE, report_errors

with_env: Final = click.option(
    "--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the server. May be repeated."
)
with_env_file: Final = click.option(
    "--env-file", "env_files", multiple=True, type=FILE, metavar="FILE", help="A file of variables, such as .env."
)


@click.command("run", short_help="Run the server of a Python file.")
@click.argument("server", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", metavar="MODULE", help="Run the server of this module instead: package.module[:name].")
@click.option("--http", is_flag=True, help="Serve over Streamable HTTP. Default: stdio.")
@click.option(
    "-t",
    "--transport",
    type=click.Choice(["stdio", "http", "streamable-http"]),
    help="The transport; http is the same as --http.",
)
@click.option("--host", help="The address to listen on, with --http. Default: 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port, with --http; 0 takes a free one. Default: 8000.")
@click.option("--path", help="The path of the endpoint, with --http. Default: /mcp.")
@with_env
@with_env_file
@report_errors
def run(
    *,
    server: str | None,
    arguments: tuple[str, ...],
    module: str | None,
    http: bool,
    transport: str | None,
    host: str | None,
    port: int | None,
    path: str | None,
    variables: tuple[str, ...],
    env_files: tuple[Path, ...],
) -> None:
    """Run the App or Server of a Python file: run server.py, or run server.py:name where it has several.

    \b
    name may be a function that returns the server. What follows -- is sys.argv of the file:
    mcp-codegen run server.py --http --port 8000 -- --database notes.db
    """
    if http and transport == "stdio":
        raise CodegenError("--http and --transport stdio exclude each other; pass one of them")
    http = http or transport in ("http", "streamable-http")
    passed = [name for name, value in (("--host", host), ("--port", port), ("--path", path)) if value is not None]
    if passed and not http:
        raise CodegenError(f"{', '.join(passed)}: only for HTTP; add --http")
    target, arguments = chosen_server(server, module, arguments)
    where = {"host": host, "path": path}
    command = launch_command(target, module=module is not None, http=http, port=port, arguments=arguments, **where)
    replace_process(command, {**os.environ, **variables_of(variables, env_files)})


def option_words(settings: Mapping[str, object]) -> list[str]:
    """Return options as words; a value may begin with a hyphen, and a list has several."""
    words: list[str] = []
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, tuple):
            words += [f"{option}={item}" for item in cast("tuple[object, ...]", value)]
        elif value is not None and value is not False:
            words.append(f"{option}={value}")
    return words


def chosen_server(server: str | None, module: str | None, arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the server to run and its arguments. Raises CodegenError if there is no such file."""
    if module is not None:
        return module, arguments if server is None else (server, *arguments)
    if server is None:
        raise CodegenError("no server was named; pass the Python file of a server, or -m MODULE")
    require_python_file(server)
    return server, arguments


def replace_process(command: tuple[str, ...], environment: dict[str, str]) -> None:
    """Replace this process by the command, so that signals and standard streams reach it directly."""
    sys.stdout.flush()
    if os.name != "nt":
        os.execve(command[0], command, environment)
    process = subprocess.Popen(command, env=environment)  # Windows would end this process at once.
    while True:
        try:
            raise SystemExit(process.wait())
        except KeyboardInterrupt:
            continue  # The server got it too, and ends.
