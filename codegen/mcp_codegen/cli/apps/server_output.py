"""What commands show of the standard error of a server, and which of its requests they can answer."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import click

from ...errors import CodegenError
from ...output import plain

_MAX_LINES: Final = 100  # A traceback of a deep stack; what a server writes before it is of no use.
_MAX_LINE: Final = 1000  # Characters.

# What a command cannot do, by the capability that the error of the server names.
_HINTS: Final = {
    "client.elicitation": "the server asks the user with a form, which this command shows in a terminal only: standard "
    "input and standard error are none here",
    "client.sampling": "the server asks for a message of a model, and this command has no model",
    "client.roots": "the server asks for the roots of the client, and this command has none",
}


def has_terminal() -> bool:
    """Return True if the user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def server_output() -> Generator[list[str]]:
    """Yield a list for the lines that a server writes to its standard error; show them if the command fails."""
    written: list[str] = []
    try:
        yield written
    except CodegenError as error:
        show(written)
        if (hint := hint_of(str(error))) is not None:
            raise CodegenError(f"{error}: {hint}") from error
        raise


def show(written: list[str]) -> None:
    """Write the last of these lines to standard error, dimmed, without characters that steer a terminal."""
    for line in written[-_MAX_LINES:]:
        click.secho(plain(line[:_MAX_LINE]), dim=True, err=True)


def hint_of(text: str) -> str | None:
    """Return why this command cannot do what a server asks for; None for another error."""
    return next((hint for name, hint in _HINTS.items() if name in text), None)
