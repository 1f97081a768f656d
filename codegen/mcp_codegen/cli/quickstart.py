"""The command `quickstart`: the programs of the protocol's quickstart in a language."""

from __future__ import annotations

from pathlib import Path

import click

from ..output import write_new_files
from ..quickstart.render import read_data, render
from .options import FOLDER, open_schemas, report_errors, schema_option


@click.command("quickstart", short_help="Write a server and a client in a language.")
@click.argument("language")
@click.option("--revision", metavar="R", help="What the client speaks. Default: what both sides agree on.")
@click.option("--output", type=FOLDER, metavar="DIR", help="The folder to write. Default: ./quickstart-LANGUAGE.")
@schema_option
@report_errors
def quickstart(language: str, revision: str | None, output: Path | None, schema: Path | None) -> None:
    """Write the quickstart of the protocol in LANGUAGE (python, typescript or go): a server, a client with a model, and
    their page.

    Files that exist are not overwritten.
    """
    stateless = revision is not None and open_schemas(schema).revision(revision).lifecycle.style == "stateless"
    texts = render(read_data(), language, revision, stateless)
    folder = output or Path(f"quickstart-{language}")
    write_new_files({folder / path: text for path, text in texts.items()})
    for path in texts:
        click.echo(f"written: {folder / path}")
