"""The options that say which server is meant, and how it lets one in, go in; a Target for the command comes out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from ..errors import CodegenError
from ..servers.probe import Access, ServerTarget, configured, named
from .options import FILE, report_errors

Command = Callable[..., None]

_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([\x20-\x7e]*)")
_ACCESS: Final = (
    click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header, for a server by URL."),
    click.option("--login", is_flag=True, help="Log in with a browser, if the server by URL asks for it."),
    click.option("--tokens", type=FILE, metavar="FILE", help="Where a login is kept for the next time."),
)
_SERVER: Final = (
    click.option(
        "--from", "source", metavar="SERVER", help="A command that starts it, its URL, or a saved list (.json)."
    ),
    click.option("--config", type=FILE, metavar="FILE", help="A claude_desktop_config.json; needs --server."),
    click.option("--server", metavar="NAME", help="Which server of the configuration."),
    *_ACCESS,
    click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds the server has."),
)


def with_target(command: Command) -> Command:
    """Give a command, as `target`, the server that its options mean."""

    @report_errors
    @wraps(command)
    def run(*, source: str | None, config: Path | None, server: str | None, **rest: Any) -> None:
        headers, login, tokens = (rest.pop(name) for name in ("headers", "login", "tokens"))
        command(target=add_credentials(_target(source, config, server), headers, login, tokens), **rest)

    return _with(_SERVER, run)


def with_access(command: Command) -> Command:
    """Give a command, as `headers`, `login` and `tokens`, how the server lets one in."""
    return _with(_ACCESS, command)


def add_credentials(target: ServerTarget, headers: tuple[str, ...], login: bool, tokens: Path | None) -> ServerTarget:
    """The target with these ways in. Raises CodegenError for one that it does not have."""
    if not target.url and (headers or login or tokens):
        raise CodegenError(f"{target}: --header, --login and --tokens are for a server by URL")
    found = [_HEADER.fullmatch(each) for each in headers]
    if not all(found):
        raise CodegenError("--header takes 'NAME: VALUE', in visible ASCII")
    given = {each[1]: each[2].strip() for each in found if each is not None}
    access = Access({**target.access.headers, **given}, login or tokens is not None, tokens)
    return replace(target, access=access)


def _with(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def _target(source: str | None, config: Path | None, server: str | None) -> ServerTarget:
    if source is not None and config is None and server is None:
        return named(source)
    if source is None and config is not None and server is not None:
        return configured(config, server)
    raise CodegenError("say which server is meant: with --from, or with --config and --server")
