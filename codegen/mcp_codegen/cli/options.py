"""What commands share: groups that import a command when it is used, options, and errors in one line."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec

import click

from ..errors import CodegenError, clipped
from ..output import plain
from ..paths import data_path
from ..servers.probe import Access, ServerTarget, parse_target, target_from_config

if TYPE_CHECKING:
    from ..catalog import SchemaCatalog

P = ParamSpec("P")
DIFFERENT: Final = 1
FAILED: Final = 2
_COMMAND: Final = "mcp_codegen.command"  # The key of the words after `--` in the context.


class Place(click.Path):
    """A file or folder that is named. An empty text, as of a variable that is not set, is not the current folder."""

    def __init__(self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, exists=exists, file_okay=file_okay, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; the current folder is ./", param, ctx)
        return super().convert(value, param, ctx)


FOLDER: Final = Place(file_okay=False)
FILE: Final = Place(dir_okay=False)
from_option: Final = click.option(
    "--from", "source", type=FOLDER, required=True, metavar="DIR", help="A checkout of the specification's repository."
)
schema_option: Final = click.option(
    "--schema", type=FOLDER, metavar="DIR", help="The folder of schemas. Default: the one that comes with mcp-codegen."
)
type_check_option: Final = click.option(
    "--type-check/--no-type-check",
    default=True,
    show_default=True,
    help="Check the types of the bindings with mypy, where it is installed.",
)
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
_ABORTED: Final = 130  # The exit code of shells for SIGINT.
Table = Mapping[str, str]  # The name of a command, and `module:attribute` of its object.
Sections = Mapping[str, Sequence[str]]  # A heading, and the commands below it.


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command print a CodegenError in one line and exit with code 2, instead of a traceback."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CodegenError as error:
            click.echo(error_line(str(error)), err=True)  # It may quote a server.
            raise SystemExit(FAILED) from None

    return run


def open_schemas(root: Path | None) -> SchemaCatalog:
    """Return the catalog of a folder, or of the schemas that come with mcp-codegen. Raises CodegenError if there is
    no such folder, and for one without a revision."""
    from ..catalog import SchemaCatalog  # Imports the packages of the generator.

    schemas = SchemaCatalog(root or data_path("schema"))
    if not schemas.root.is_dir():
        raise CodegenError(f"{schemas.root}: this folder does not exist; pass a folder of schemas with --schema")
    if not schemas.pins and not schemas.unclear:
        raise CodegenError(f"{schemas.root}: this folder has no revision; pass a folder of schemas with --schema")
    return schemas


# The words that name a server: the same forms for every command.


class ServerCommand(click.Command):
    """A command whose server may stand at the end, as `-- COMMAND ARGUMENTS`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[_COMMAND], args = tuple(args[place + 1 :]), args[:place]
        return super().parse_args(ctx, args)


def command_words(usage: str) -> tuple[str, ...] | None:
    """Return the words after `--` of a ServerCommand, None without it. Raises CodegenError if there are none."""
    command: tuple[str, ...] | None = click.get_current_context().meta.get(_COMMAND)
    if command == ():
        raise CodegenError(f"there is no command after --; write {usage}")
    return command


def named_server(words: tuple[str, ...], usage: str) -> tuple[ServerTarget, tuple[str, ...]]:
    """Return the server of a ServerCommand, and the words that do not name it. Raises CodegenError without one."""
    command = command_words(usage)
    if command is not None:
        return ServerTarget(command), words
    if not words:
        raise CodegenError(f"no server was named; write {usage}")
    return parse_target(words[0]), words[1:]


# The options that name a server and its credentials, and the target that they give.


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


# A group of commands that are imported when they are used, a help that is grouped by what one wants, and one form of
# errors.


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
            if "revisions" in ctx.params and re.fullmatch(r"\d{4}-\d\d-\d\d", name):
                hint = f"for a revision, write --revision {name}"
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
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            click.echo(error_line(f"the output cannot be written: {error.strerror}"), err=True)
            sys.exit(FAILED)
        sys.exit(code if isinstance(code, int) else 0)


def _end_with(error: click.ClickException) -> NoReturn:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # A group without its command: the help says which.
        error.show()
        sys.exit(error.exit_code)
    text = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        text = f"{text.rstrip('.').replace('. ', '; ')}; {context.command_path} --help shows its use"
    click.echo(error_line(text), err=True)
    sys.exit(error.exit_code)
