"""What the commands share: the options that several take, and how a fault becomes one line and exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final, ParamSpec

import click

from ..catalog import SchemaCatalog
from ..errors import CodegenError
from ..paths import data_path

P = ParamSpec("P")
DIFFERENT: Final = 1
FAILED: Final = 2
FOLDER: Final = click.Path(path_type=Path, file_okay=False)
FILE: Final = click.Path(path_type=Path, dir_okay=False)
schema_option: Final = click.option(
    "--schema", type=FOLDER, metavar="DIR", help="Folder of schemas. Default: the one that comes with mcp-codegen."
)


def report_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Say what is wrong with the input in one line and leave with exit code 2, instead of a traceback."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CodegenError as fault:
            click.secho("error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(" ".join(str(fault).split()), err=True)
            raise SystemExit(FAILED) from None

    return run


def open_schemas(root: Path | None) -> SchemaCatalog:
    """The schemas of a folder, or those that come with mcp-codegen. Raises CodegenError where there is none."""
    schemas = SchemaCatalog(root or data_path("schema"))
    if not schemas.root.is_dir():
        raise CodegenError(f"{schemas.root}: there is no such folder of schemas")
    return schemas
