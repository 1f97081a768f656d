"""Options that several commands share, and the conversion of errors to one line and exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec

import click

from ..errors import CodegenError, clipped
from ..output import plain
from ..paths import data_path

if TYPE_CHECKING:
    from ..catalog import SchemaCatalog

P = ParamSpec("P")
DIFFERENT: Final = 1
FAILED: Final = 2
FOLDER: Final = click.Path(path_type=Path, file_okay=False)
FILE: Final = click.Path(path_type=Path, dir_okay=False)
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


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command print a CodegenError in one line and exit with code 2, instead of a traceback."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CodegenError as error:
            click.secho("error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(clipped(plain(" ".join(str(error).split()))), err=True)  # It may quote a server.
            raise SystemExit(FAILED) from None

    return run


def open_schemas(root: Path | None) -> SchemaCatalog:
    """Return the catalog of a folder, or of the schemas that come with mcp-codegen. Raises CodegenError if there is
    no such folder."""
    from ..catalog import SchemaCatalog  # Imports the packages of the generator.

    schemas = SchemaCatalog(root or data_path("schema"))
    if not schemas.root.is_dir():
        raise CodegenError(f"{schemas.root}: this folder does not exist; pass a folder of schemas with --schema")
    return schemas
