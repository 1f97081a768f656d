"""The command `ir`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..errors import CodegenError
from .options import FILE, open_schemas, report_errors, schema_option


@click.command("ir")
@click.option("--revision", metavar="R", help="The revision to print.")
@click.option("--protocol", "manifest", type=FILE, metavar="FILE", help="The manifest of another protocol to print.")
@click.option("--json-schema", is_flag=True, help="Print the JSON Schema of the output instead.")
@schema_option
@report_errors
def ir(revision: str | None, manifest: Path | None, json_schema: bool, schema: Path | None) -> None:
    """Print the intermediate representation (IR) of a revision, which templates and plugins get, as JSON."""
    if [revision is not None, manifest is not None, json_schema].count(True) != 1:
        raise CodegenError("pass either --revision R or --json-schema, or --protocol FILE")
    if json_schema:
        from ..render.ir_json import schema as contract  # Imports datamodel-code-generator.

        document = contract()
    else:
        document = dumped(revision, manifest, schema)
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def dumped(revision: str | None, manifest: Path | None, schema: Path | None) -> dict[str, Any]:
    """Return the IR of a revision, or of another protocol by its manifest. Raises CodegenError."""
    from ..protocols.protocol import read_protocol
    from ..render.ir_json import dump

    if manifest is not None:
        return dump(read_protocol(manifest)[1])
    schemas = open_schemas(schema)
    return dump(schemas.revision(revision or ""), [schemas.revision(name) for name in schemas.pins])
