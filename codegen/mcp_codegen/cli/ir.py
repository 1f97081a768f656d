"""The command `ir`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..errors import CodegenError
from .options import open_schemas, report_errors, schema_option


@click.command("ir")
@click.option("--revision", metavar="R", help="The revision to print.")
@click.option("--json-schema", is_flag=True, help="Print the JSON Schema of the output instead.")
@schema_option
@report_errors
def ir(revision: str | None, json_schema: bool, schema: Path | None) -> None:
    """Print the intermediate representation (IR) of a revision, which templates get, as JSON."""
    from ..render import ir_json as intermediate  # Imports datamodel-code-generator.

    if (revision is None) != json_schema:
        raise CodegenError("pass either --revision R or --json-schema")
    document = intermediate.schema() if revision is None else intermediate.dump(open_schemas(schema).revision(revision))
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
