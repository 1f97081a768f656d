"""A group of commands that are imported when they are used, a help that is grouped by what one wants, and one form of
errors."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from ..errors import clipped
from ..output import plain

_ABORTED: Final = 130  # The exit code of shells for SIGINT.

Table = Mapping[str, str]  # The name of a command, and `module:attribute` of its object.
Sections = Mapping[str, Sequence[str]]  # A heading, and the commands below it.


def error_line(text: str) -> str:
    """Return the line that says what is wrong, in the one form that all commands have."""
    return click.style("error: ", fg="red", bold=True) + clipped(plain(" ".join(text.split())))


class LazyGroup(click.Group):
    """A click group with a table of commands. Those of `passed` work as well, and its help does not list them.

    `sections` groups the help, and `notes` are its last lines.
    """

    def __init__(
        self,
        *args: Any,
        table: Table,
        passed: Table | None = None,
        sections: Sections | None = None,
        notes: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._table = table
        self._all = {**(passed or {}), **table}
        self._sections = sections
        self._notes = notes

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._table, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._all:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._all[cmd_name].partition(":")
        command: object = getattr(import_module(module, __package__), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            known = [*self._all, *super().list_commands(ctx)]
            nearest = get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"the commands are {', '.join(sorted(known))}"
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._sections is None:
            super().format_commands(ctx, formatter)
        for heading, names in (self._sections or {}).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, found.get_short_help_str(90)) for name, found in commands if found])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self._notes:
            formatter.write_paragraph()
            for note in self._notes:
                formatter.write(f"{note}\n")

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command, and end the process. What is wrong is one line, and exit code 2."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            _end_with(error)
        except click.Abort:
            sys.exit(_ABORTED)
        sys.exit(code if isinstance(code, int) else 0)


def _end_with(error: click.ClickException) -> NoReturn:
    text = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        text = f"{text.rstrip('.').replace('. ', '; ')}; {context.command_path} --help shows its use"
    click.echo(error_line(text), err=True)
    sys.exit(error.exit_code)
