"""The command `protocol`."""

from __future__ import annotations

from pathlib import Path

import click

from ...output import compare_files
from ...paths import package_folder, template_folders
from ...swap import write_folder
from ..options import DIFFERENT, FILE, FOLDER, report_errors


@click.command("protocol", short_help="Generate bindings of another JSON-RPC protocol.")
@click.argument("manifest", type=FILE)
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="The package to write.")
@click.option("--check", is_flag=True, help="Write nothing. Exit code 1 if the files are out of date.")
@report_errors
def protocol(manifest: Path, output: Path, check: bool) -> None:
    """Generate bindings of another JSON-RPC protocol, such as LSP or ACP, from its document.

    MANIFEST is a file such as protocol.toml, which names the document, its format and the two sides.
    """
    from ...protocols.protocol import read_protocol
    from ...protocols.protocol_package import render_protocol  # Imports datamodel-code-generator and black.

    folder = package_folder(output)
    described, revision = read_protocol(manifest)
    files = render_protocol(described, revision, template_folders(), folder)
    name = f"{described.name} {revision.id}"
    if check:
        if different := compare_files(files):
            click.echo(f"{name}: {len(different)} files are out of date", err=True)
            raise SystemExit(DIFFERENT)
        click.echo(f"{name}: {len(files)} files, all up to date")
        return
    changed = write_folder(folder, files)
    click.echo(f"{name}: {len(revision.types)} types, {len(revision.methods)} messages; {len(changed)} files written")
