"""The options that name a server and its credentials, and the target that they give."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from ..errors import CodegenError
from ..servers.probe import Access, ServerTarget, parse_target, target_from_config
from .options import FILE, report_errors

Command = Callable[..., None]

_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([\x20-\x7e]*)")
_ACCESS: Final = (
    click.option(
        "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header to send to a server with a URL."
    ),
    click.option("--login", is_flag=True, help="Log in with a browser, if the server with a URL requires it."),
    click.option("--tokens", type=FILE, metavar="FILE", help="The file that stores the tokens of a login."),
)
_SERVER: Final = (
    click.option(
        "--from", "source", metavar="SERVER", help="The server: its command, its URL, or a saved list (.json)."
    ),
    click.option("--config", type=FILE, metavar="FILE", help="A claude_desktop_config.json; needs --server."),
    click.option("--server", metavar="NAME", help="The server in the configuration."),
    *_ACCESS,
    click.option(
        "--timeout", type=float, default=60.0, show_default=True, help="The time limit for the server, in seconds."
    ),
)


def with_target(command: Command) -> Command:
    """Decorate a command: pass the server that its options name as `target`."""

    @report_errors
    @wraps(command)
    def run(*, source: str | None, config: Path | None, server: str | None, **rest: Any) -> None:
        headers, login, tokens = (rest.pop(name) for name in ("headers", "login", "tokens"))
        command(target=add_credentials(_target(source, config, server), headers, login, tokens), **rest)

    return _with(_SERVER, run)


def with_access(command: Command) -> Command:
    """Decorate a command: pass the credentials of its options as `headers`, `login` and `tokens`."""
    return _with(_ACCESS, command)


def add_credentials(target: ServerTarget, headers: tuple[str, ...], login: bool, tokens: Path | None) -> ServerTarget:
    """Return the target with these credentials. Raises CodegenError for a target without a URL."""
    if not target.url and (headers or login or tokens):
        raise CodegenError(f"{target}: --header, --login and --tokens need a server with a URL")
    matches = [_HEADER.fullmatch(header) for header in headers]
    if not all(matches):
        raise CodegenError("--header takes 'NAME: VALUE' in visible ASCII")
    values = {match[1]: match[2].strip() for match in matches if match is not None}
    access = Access({**target.access.headers, **values}, login or tokens is not None, tokens)
    return replace(target, access=access)


def _with(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def _target(source: str | None, config: Path | None, server: str | None) -> ServerTarget:
    if source is not None and config is None and server is None:
        return parse_target(source)
    if source is None and config is not None and server is not None:
        return target_from_config(config, server)
    raise CodegenError("no server was named; pass --from, or --config and --server")
